package sqliteledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// list returns the ids that a query yields, and those of them that are damaged.
func list(t *testing.T, l ledger.Ledger, q ledger.Query) (ids, damaged []string) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), q) {
		if d, is := errors.AsType[*ledger.DamagedError](err); is {
			damaged = append(damaged, d.ID)
		} else if err != nil {
			t.Errorf("%+v: %v", q, err)
		}
		ids = append(ids, e.ID)
	}
	return ids, damaged
}

// A spoiled ledger damages effects by hand.
type spoiled struct {
	*sqliteledger.Ledger
	db  *sql.DB
	set string
}

func (s spoiled) Damage(ctx context.Context, id string) error {
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = on", "UPDATE holdfast_effects SET " + s.set + " WHERE id = '" + id + "'",
		"PRAGMA ignore_check_constraints = off",
	} {
		if _, err := s.db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

var damages = []struct{ set, says string }{
	{"state = 'done'", "done"},
	{"args = '{'", "arguments"},
	{"result = '{'", "result"},
	{"attempts = 0", "attempt 0"},
	{"class = 7", "class 7"},
	{"iteration = -1", "iteration -1"},
	{"nonce = ''", "nonce"},
	{"epoch = -1", "epoch -1"},
	{"unsure = 2", "unsure"},
	{"name = CAST(x'ff' AS TEXT)", "name"},
	{"error = CAST(zeroblob(70000) AS TEXT)", "error"},
}

// The contract of damaged effects.
func TestDamagedSuite(t *testing.T) {
	t.Parallel()
	for _, c := range damages {
		if strings.HasPrefix(c.set, "result") || strings.HasPrefix(c.set, "error") {
			continue // an outcome writes over it
		}
		t.Run(c.set, func(t *testing.T) {
			ledgertest.RunDamaged(t, func(t *testing.T) ledgertest.DamagingLedger {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				return spoiled{create(t, db, nil), db, c.set}
			})
		})
	}
}

// A damaged effect does not hide others. The ledger does not guess, and does not repair it.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range damages {
		t.Run(c.set, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			l := create(t, db, nil)
			for _, id := range []string{"a", "b", "c"} {
				issue(t, l, effect("run", id))
			}
			want(t, spoiled{l, db, c.set}.Damage(t.Context(), "b"), nil)
			for _, q := range []ledger.Query{{}, {RunID: "run"}, {Session: "session of run"}, {Open: true}} {
				ids, damaged := list(t, l, q)
				if !slices.Equal(ids, []string{"a", "b", "c"}) || !slices.Equal(damaged, []string{"b"}) {
					t.Errorf("%+v: %q, of which damaged are %q", q, ids, damaged)
				}
			}
			for _, again := range []bool{false, true} {
				_, issued, err := l.Issue(t.Context(), effect("run", "b"), again)
				if issued || !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Issue: %t, %v, want %v that says %q", issued, err, ledger.ErrDamaged, c.says)
				}
			}
			answer := ledger.Answer{Skip: true, By: "Ann"}
			want(t, ledger.Resolve(t.Context(), l, "b", answer), ledger.ErrDamaged)
			tx, err := db.BeginTx(t.Context(), nil)
			want(t, err, nil)
			_, err = sqliteledger.Tx(t.Context(), l, tx, effect("run", "b"), mustNotRun(t))
			want(t, err, ledger.ErrDamaged)
			want(t, tx.Rollback(), nil)
			want(t, l.Adopt(t.Context(), "run", fence(2)), nil)
			for _, id := range []string{"a", "c"} {
				if e := kept(t, l, id); e.State != ledger.Unknown {
					t.Errorf("kept: %+v", e)
				}
			}
		})
	}
}

// If SQLite itself cannot read the arguments of an effect, this effect is damaged. The others can be read, and written.
func TestMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	l := create(t, db, nil)
	const effects, torn = 40, 10 // in a page that is full
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("argument %02d ", i), 1000) }
	var all []string
	for i := range effects {
		e := effect("run", fmt.Sprintf("e%02d", i))
		e.Args = json.RawMessage(`"` + text(i) + `"`)
		e.Attempts = issue(t, l, e).Attempts
		if i%2 == torn%2 { // unsure stands behind the arguments
			if _, issued, err := l.Issue(t.Context(), e, true); err != nil || !issued {
				t.Fatalf("issued %t, %v", issued, err)
			}
		}
		all = append(all, e.ID)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:22])

	l = sqliteledger.New(sqlitetest.Open(t, dsn), nil)
	for _, q := range []ledger.Query{{}, {RunID: "run"}, {Session: "session of run"}, {Open: true}, {ID: all[torn]}} {
		wantAll := all
		if q.ID != "" {
			wantAll = all[torn : torn+1]
		}
		if ids, damaged := list(t, l, q); !slices.Equal(ids, wantAll) || !slices.Equal(damaged, all[torn:torn+1]) {
			t.Errorf("%+v: %q, of which damaged are %q", q, ids, damaged)
		}
	}
	for _, id := range []string{all[torn-1], all[torn+1]} {
		if _, err := l.Finish(t.Context(), id, 1, paid); err != nil {
			t.Error(err)
		}
	}
	_, _, err := l.Issue(t.Context(), effect("run", all[torn]), true)
	want(t, err, ledger.ErrDamaged)
	wantDamaged := func(err error) {
		t.Helper()
		if d, is := errors.AsType[*ledger.DamagedError](err); !is || d.ID != all[torn] {
			t.Errorf("got error %v, want a *DamagedError of %s", err, all[torn])
		}
	}
	_, err = l.Finish(t.Context(), all[torn], 1, paid)
	wantDamaged(err)
	_, err = l.Finish(t.Context(), all[torn], 3, ledger.Outcome{State: ledger.Failed}) // of no attempt: only read
	wantDamaged(err)
	_, _, err = l.Issue(t.Context(), effect("another run", all[torn]), false)
	wantDamaged(err)
}
