package checkpoint_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
)

// addLabeled adds sessions as the store would have left them. All have a user, one in ten waits, and one in a thousand
// of these is due. The newest do not wait.
func addLabeled(t *testing.T, s pg, from, to int) {
	t.Helper()
	s.exec(t, `
		INSERT INTO {sessions} (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
		SELECT 'bot', lpad(i::text, 8, '0'), 1, '', '', now(), 1, 0 FROM generate_series($1::int, $2::int - 1) i`, from, to)
	s.exec(t, `
		INSERT INTO {labels} (orchestrator, session, label, due)
		SELECT 'bot', lpad(i::text, 8, '0'), l, CASE WHEN l = 'wait' THEN CASE WHEN i % 10000 = 0 THEN 1 ELSE 1e13 END END
		FROM generate_series($1::int, $2::int - 1) i, unnest(ARRAY['user:' || i % 1000, 'wait']) l
		WHERE l <> 'wait' OR i % 10 = 0`, from, to)
}

// labelCalls are the listings by label, and a settle that relabels.
func labelCalls(t *testing.T, s pg) map[string]func(n int) {
	page := func(want int, q checkpoint.SessionQuery) func(int) {
		return func(int) {
			q.Orchestrator = "bot"
			n := 0
			for _, err := range s.Sessions(t.Context(), q) {
				check(t, err)
				if n++; n == want {
					break
				}
			}
			if n != want {
				t.Errorf("%d sessions by %+v, want %d", n, q, want)
			}
		}
	}
	return map[string]func(n int){
		"first page":      page(100, checkpoint.SessionQuery{Label: "wait"}),
		"a page behind":   page(10, checkpoint.SessionQuery{Label: "wait", After: "00005000"}),
		"what nobody has": page(0, checkpoint.SessionQuery{Label: "nothing"}),
		"of a user":       page(10, checkpoint.SessionQuery{Label: "user:7"}),
		"what is due":     page(2, checkpoint.SessionQuery{Label: "wait", By: time.UnixMilli(2), Limit: 2}),
		"one of them":     page(1, checkpoint.SessionQuery{Label: "wait", Session: "00000010"}),
		"settle and label": func(n int) {
			l := claim(t, s, fmt.Sprint("new", n, time.Now().UnixNano())).Lease
			o := checkpoint.AppendOptions{Relabel: true, Labels: []checkpoint.Label{{Name: "user:1"}, {Name: "other"}}}
			settle(t, s, l, o, 0)
			settle(t, s, l, checkpoint.AppendOptions{Relabel: true}, 1)
			check(t, s.Delete(t.Context(), l))
		},
	}
}

// A listing by a label costs by what is listed, whatever the server knows: nothing of the heads, and of the labels that
// all sessions wait and are due, as when there were few.
func TestPostgresLabelsStaleStatistics(t *testing.T) {
	t.Parallel()
	server, s := counted(t, pgcheckpoint.Options{}, map[string]string{"autovacuum": "off"}, pgtest.OneConnection)
	s.exec(t, `
		INSERT INTO {labels} (orchestrator, session, label, due)
		SELECT 'bot', 'old' || i, 'wait', 1 FROM generate_series(1, 100) i`)
	s.exec(t, "VACUUM (ANALYZE) {labels}")
	s.exec(t, "DELETE FROM {labels}")
	addLabeled(t, s, 0, 60_000)
	for _, known := range []string{"old statistics", "statistics"} {
		s.pool.Reset() // plans are made anew
		for what, do := range labelCalls(t, s) {
			do(0)
			before := server.Blocks()
			do(1)
			touched := server.Blocks() - before
			if t.Logf("%s, %s: %d blocks", known, what, touched); touched > 600 {
				t.Errorf("with %s, %s touches %d blocks", known, what, touched)
			}
		}
		s.exec(t, "ANALYZE")
	}
}

// The first page of 100,000 sessions that wait, among 1,000,000, comes within 10 ms.
func TestPostgresLabelsAtScale(t *testing.T) {
	if os.Getenv("HOLDFAST_SOAK") != "1" {
		t.Skip("only with HOLDFAST_SOAK=1: it writes a million sessions")
	}
	_, s := counted(t, pgcheckpoint.Options{}, nil, pgtest.OneConnection)
	addLabeled(t, s, 0, 1_000_000)
	s.exec(t, "VACUUM (ANALYZE) {labels}")
	s.exec(t, "VACUUM (ANALYZE) {sessions}")
	for what, do := range labelCalls(t, s) {
		do(0)
		best := time.Hour
		for n := range 20 {
			start := time.Now()
			do(n + 1)
			best = min(best, time.Since(start))
		}
		if t.Logf("%s: %v", what, best); best > 10*time.Millisecond {
			t.Errorf("%s takes %v", what, best)
		}
	}
}

// Bots costs by the bots, and not by their sessions.
func TestPostgresBotsCost(t *testing.T) {
	t.Parallel()
	server, s := counted(t, pgcheckpoint.Options{}, nil, pgtest.OneConnection)
	addLabeled(t, s, 0, 60_000)
	s.exec(t, "UPDATE {sessions} SET orchestrator = 'bot' || session::int % 3")
	s.exec(t, "VACUUM (ANALYZE) {sessions}")
	for range 2 {
		before := server.Blocks()
		names, err := s.Bots(t.Context())
		check(t, err)
		touched := server.Blocks() - before
		if t.Logf("%d blocks", touched); len(names) != 3 || names[0] != "bot0" || touched > 100 {
			t.Errorf("%q, %d blocks", names, touched)
		}
	}
}
