package sqlite_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If a statement of a store loses what it rests on, the suite notices.
func TestConvicts(t *testing.T) {
	for _, c := range contracts {
		for name, b := range c.convicts {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				convicted := func(pairs ...string) bool {
					_, db := sqlitetest.Tamper(t, testenv.SQLite(t), pairs...)
					open := func() store { return c.create(t, db, options{}) }
					return c.violations(t.Context(), open, b.clause)[b.clause] != nil
				}
				if convicted() || !convicted(b.pairs...) {
					t.Errorf("clause %s does not tell it from the store", b.clause)
				}
			})
		}
	}
}

// A call executes few statements, and as many transactions as it needs.
func TestStatements(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		if c.statements == nil {
			t.Skip("the engine's tests count its statements")
		}
		sent, db := sqlitetest.Tamper(t, testenv.SQLite(t))
		s := c.create(t, db, options{})
		wantAll(t, "at first", s)
		for _, e := range c.statements(t, s) {
			sent.Executed()
			if err := e.do(t.Context()); err != nil {
				t.Errorf("%s: %v", e.name, err)
			}
			if got := sent.Words(); got != e.want {
				t.Errorf("%s executes %s, want %s", e.name, got, e.want)
			}
		}
	})
}
