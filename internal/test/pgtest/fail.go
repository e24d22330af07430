package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Failing is in the error of a statement that Fail has made fail.
const Failing = "it fails"

// Fail makes statements fail until Mend. event is that of a trigger: "INSERT ON holdfast_runs".
func Fail(tb testing.TB, p *pgxpool.Pool, event string) {
	tb.Helper()
	Exec(tb, p, "CREATE OR REPLACE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql AS "+
		"$$ BEGIN RAISE EXCEPTION '"+Failing+"'; END $$")
	Exec(tb, p, "CREATE TRIGGER failing BEFORE "+event+" FOR EACH ROW EXECUTE FUNCTION failing()")
}

// Mend ends what Fail has begun.
func Mend(tb testing.TB, p *pgxpool.Pool) {
	tb.Helper()
	Exec(tb, p, "DROP FUNCTION failing CASCADE")
}

// Contents returns all rows of tables, a line each.
func Contents(tb testing.TB, p *pgxpool.Pool, tables ...string) string {
	tb.Helper()
	var b strings.Builder
	for _, table := range tables {
		rows := Value[string](tb, p,
			"SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM "+table+" t")
		b.WriteString(table + ":\n" + rows + "\n")
	}
	return b.String()
}

// FailsWhole checks a call one of whose statements fails. The call fails and changes nothing in the tables. The same
// call succeeds later, and changes something.
func FailsWhole(t *testing.T, p *pgxpool.Pool, event string, call func(context.Context) error, tables ...string) {
	t.Helper()
	before := Contents(t, p, tables...)
	Fail(t, p, event)
	if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), Failing) {
		t.Errorf("got %v", err)
	}
	if after := Contents(t, p, tables...); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	Mend(t, p)
	if err := call(t.Context()); err != nil {
		t.Error(err)
	}
	if Contents(t, p, tables...) == before {
		t.Error("the second call changes nothing")
	}
}
