package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// A spoiled ledger damages effects by hand.
type spoiled struct {
	ledger.Ledger
	spoil func(ctx context.Context, id string) error
	begin func(t *testing.T) *tx
}

func (s spoiled) Damage(ctx context.Context, id string) error { return s.spoil(ctx, id) }

// A damage sets a column to what no ledger wrote. If says is not "", an error about the effect says so.
type damage struct{ set, says string }

var damages = map[string][]damage{
	"postgres": {
		{"state = 'done'", "done"},
		{"state = ''", ""},
		{"attempts = -1", "attempt -1"},
		{"class = 7", "class 7"},
		{"epoch = 0", "epoch 0"},
		{"nonce = ''", "nonce"},
		{"iteration = -1", "iteration -1"},
		{"name = ''", "name"},
		{"issued_at = 'infinity'", "infinite"},
		{"issued_at = '-infinity'", "infinite"},
		{"answered_at = 'infinity'", "infinite"},
		{"answered_at = '-infinity'", "infinite"},
	},
	"sqlite": {
		{"state = 'done'", "done"},
		{"args = '{'", "arguments"},
		{resultIsNone, "result"},
		{"attempts = 0", "attempt 0"},
		{"class = 7", "class 7"},
		{"iteration = -1", "iteration -1"},
		{"nonce = ''", "nonce"},
		{"epoch = -1", "epoch -1"},
		{"unsure = 2", "unsure"},
		{"name = CAST(x'ff' AS TEXT)", "name"},
		{errorIsLong, "error"},
	},
}

// An outcome writes over these.
const (
	resultIsNone = "result = '{'"
	errorIsLong  = "error = CAST(zeroblob(70000) AS TEXT)"
)

// spoiling returns a maker of ledgers which the damage befalls.
func spoiling(t *testing.T, database, set string) func(t *testing.T) ledgertest.DamagingLedger {
	if database == "sqlite" {
		return func(t *testing.T) ledgertest.DamagingLedger {
			l, db := onOne(t)
			return spoiled{l, func(ctx context.Context, id string) error {
				_, err := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on; UPDATE holdfast_effects SET "+set+
					" WHERE id = '"+id+"'; PRAGMA ignore_check_constraints = off")
				return err
			}, func(t *testing.T) *tx { return beginFile(t, l, db) }}
		}
	}
	p := pgtest.EmptyPool(t)
	l := onPool(t, p)
	return func(t *testing.T) ledgertest.DamagingLedger {
		pgtest.Clear(t, p)
		return spoiled{l, func(ctx context.Context, id string) error {
			_, err := p.Exec(ctx, "UPDATE holdfast_effects SET "+set+" WHERE id = $1", id)
			return err
		}, func(t *testing.T) *tx { return beginPool(t, l, p, pgx.TxOptions{}) }}
	}
}

func eachDamage(t *testing.T, test func(t *testing.T, d damage, open func(t *testing.T) ledgertest.DamagingLedger)) {
	t.Parallel()
	for database, all := range damages {
		for _, d := range all {
			t.Run(database+"/"+d.set, func(t *testing.T) {
				t.Parallel()
				test(t, d, spoiling(t, database, d.set))
			})
		}
	}
}

// The contract of damaged effects.
func TestDamagedSuite(t *testing.T) {
	eachDamage(t, func(t *testing.T, d damage, open func(t *testing.T) ledgertest.DamagingLedger) {
		if d.set != resultIsNone && d.set != errorIsLong {
			ledgertest.RunDamaged(t, open)
		}
	})
}

// A damaged effect does not hide others. The ledger does not guess, and does not repair it.
func TestDamaged(t *testing.T) {
	eachDamage(t, func(t *testing.T, d damage, open func(t *testing.T) ledgertest.DamagingLedger) {
		l := open(t)
		for _, id := range []string{"a", "b", "c"} {
			issue(t, l, effect("run", id, 1))
		}
		want(t, l.Damage(t.Context(), "b"), nil)
		for _, q := range []ledger.Query{{}, {RunID: "run"}, {Session: "session of run"}, {Open: true}} {
			ids, damaged := list(t, l, q)
			if !slices.Equal(ids, []string{"a", "b", "c"}) || !slices.Equal(damaged, []string{"b"}) {
				t.Errorf("%+v: %q, of which damaged are %q", q, ids, damaged)
			}
		}
		for _, again := range []bool{false, true} {
			_, issued, err := l.Issue(t.Context(), effect("run", "b", 1), again)
			if issued || !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), d.says) {
				t.Errorf("Issue: %t, %v, want %v that says %q", issued, err, ledger.ErrDamaged, d.says)
			}
		}
		want(t, ledger.Resolve(t.Context(), l, "b", ledger.Answer{Skip: true, By: "Ann"}), ledger.ErrDamaged)
		x := l.(spoiled).begin(t)
		_, err := do(t.Context(), x, effect("run", "b", 1), mustNotRun(t))
		want(t, err, ledger.ErrDamaged)
		want(t, x.rollback(), nil)
		want(t, l.Adopt(t.Context(), "run", fence(2)), nil)
		for _, id := range []string{"a", "c"} {
			if e := kept(t, l, id); e.State != ledger.Unknown {
				t.Errorf("kept: %+v", e)
			}
		}
	})
}

// An effect that came to its state at an infinite time is damaged. A result that is taken comes with its own time.
func TestPostgresEndlessFinish(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"infinity", "-infinity"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := onPool(t, p)
			for _, id := range []string{"a", "b", "c"} {
				issue(t, l, effect("run", id, 1))
			}
			_, err := l.Finish(t.Context(), "b", 1, paid)
			want(t, err, nil)
			pgtest.Exec(t, p, "UPDATE holdfast_effects SET finished_at = $1::text::timestamptz WHERE id <> 'a'", at)
			if ids, damaged := list(t, l, ledger.Query{}); fmt.Sprint(ids, damaged) != "[a b c] [b c]" {
				t.Errorf("Effects yields %v, of which %v are damaged", ids, damaged)
			}
			if now, err := l.Finish(t.Context(), "b", 1, paid); !errors.Is(err, ledger.ErrDamaged) || now.ID != "b" {
				t.Errorf("Finish of what is completed: %v, want %v", err, ledger.ErrDamaged)
			}
			_, err = l.Finish(t.Context(), "c", 1, paid) // which is open
			want(t, err, nil)
			if now := kept(t, l, "c"); now.FinishedAt.IsZero() || now.State != ledger.Completed {
				t.Errorf("kept: %+v", now)
			}
		})
	}
}

// tearing returns a maker of ledgers whose documents are out of line. Damage takes a block of the arguments away.
func tearing(t *testing.T) func(t *testing.T) (s spoiled, p *pgxpool.Pool, prefix string) {
	_, p, _ := private(t, nil)
	n := 0
	return func(t *testing.T) (spoiled, *pgxpool.Pool, string) {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		l := onPostgres.On(t, p, prefix)
		for _, column := range []string{"args", "result"} {
			pgtest.Exec(t, p, named(prefix, "ALTER TABLE {effects} ALTER COLUMN "+column+" SET STORAGE EXTERNAL"))
		}
		return spoiled{l, func(ctx context.Context, id string) error {
			const long = "UPDATE {effects} SET args = to_jsonb(repeat('x', 10000)) WHERE id = $1"
			if _, err := p.Exec(ctx, named(prefix, long), id); err != nil {
				return err
			}
			return testenv.LoseChunk(ctx, p, prefix+"effects")
		}, nil}, p, prefix
	}
}

// An effect that the server itself cannot read is damaged, as is an effect that no ledger wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	newTorn := tearing(t)
	ledgertest.RunDamaged(t, func(t *testing.T) ledgertest.DamagingLedger { s, _, _ := newTorn(t); return s })
}

// The result of an effect is kept, although the server cannot read the arguments. A result that is lost is damage.
func TestPostgresLostArguments(t *testing.T) {
	t.Parallel()
	l, p, prefix := tearing(t)(t)
	e := effect("run", "a", 1)
	e.Args = json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	e = issue(t, l, e)
	want(t, testenv.LoseChunk(t.Context(), p, prefix+"effects"), nil)
	now, err := l.Finish(t.Context(), "a", e.Attempts, paid)
	if !errors.Is(err, ledger.ErrDamaged) || now.State != ledger.Completed || string(now.Result) != `"receipt"` {
		t.Errorf("Finish returns %+v, %v", now, err)
	}
	pgtest.Exec(t, p, named(prefix, "UPDATE {effects} SET args = NULL"))
	if now := kept(t, l, "a"); now.State != ledger.Completed || string(now.Result) != `"receipt"` {
		t.Errorf("kept: %+v", now)
	}

	pgtest.Exec(t, p, named(prefix, "UPDATE {effects} SET result = to_jsonb(repeat('x', 10000))"))
	want(t, testenv.LoseChunk(t.Context(), p, prefix+"effects"), nil)
	asked := effect("run", "a", 1)
	now, issued, err := l.Issue(t.Context(), asked, true)
	wantLost := func(what string) {
		t.Helper()
		if !errors.Is(err, ledger.ErrDamaged) || issued || now.State != ledger.Completed {
			t.Errorf("%s returns %+v, %v", what, now, err)
		}
	}
	wantLost("Issue")
	asked.Class = ledger.Pure
	now, err = l.Record(t.Context(), asked)
	wantLost("Record")
	now, err = l.Finish(t.Context(), "a", 1, paid)
	wantLost("Finish")
}
