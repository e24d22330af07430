package workflow_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
)

// With the index that the docs name, the runs of one customer are found without a walk through all runs, also after
// lists by a value that many runs have.
func TestPostgresListByInput(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`(?m)^CREATE INDEX .* USING gin .*;$`).FindString(string(doc))
	if index == "" {
		t.Fatal("docs/workflows.md names no index")
	}
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_workflow_runs (id, workflow, version, status, since, retention, started, completed, input)
		SELECT 'r' || i, 'w' || i % 3, 1, 'completed', at, 365, at, at,
			jsonb_build_object('customer', jsonb_build_object('id', i / 6), 'plan', i % 6, 'region', i % 100)
		FROM generate_series(0, 119999) i, LATERAL (SELECT now() - i * interval '1 s') t (at)`)
	pgtest.Exec(t, p, "VACUUM (ANALYZE) holdfast_workflow_runs")
	list := func(input string, want int, of ...string) {
		q := workflow.Query{Input: json.RawMessage(input), Limit: 51}
		if len(of) > 0 {
			q.Workflow = of[0]
		}
		check(t, pages(t, s, q, 51, want)())
	}
	blocks := func(find func()) int64 {
		find()
		before := server.Blocks()
		find()
		return server.Blocks() - before
	}
	customer := func() { list(`{"customer":{"id":7000}}`, 6) }
	const most = 400
	if n := blocks(customer); n <= most {
		t.Errorf("without the index it is %d blocks: this test cannot tell", n)
	}
	pgtest.Exec(t, p, index)
	pgtest.Exec(t, p, "ANALYZE holdfast_workflow_runs")
	p.Reset()
	for range 10 {
		list(`{"region":7}`, 51) // as many runs as PostgreSQL expects of a value that it does not know
	}
	for what, find := range map[string]func(){
		"the runs of a customer":               customer,
		"the runs of a customer of a workflow": func() { list(`{"customer":{"id":7000}}`, 2, "w1") },
		"a customer without runs":              func() { list(`{"customer":{"id":-1}}`, 0, "w1") },
		"the runs of a plan":                   func() { list(`{"plan":0}`, 51, "w0") },
	} {
		n := blocks(find)
		if t.Logf("%s: %d blocks", what, n); n > most {
			t.Errorf("%s: %d blocks, want %d at most", what, n, most)
		}
	}
}
