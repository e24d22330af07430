package pgledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// A spoiled ledger damages effects by hand.
type spoiled struct {
	*pgledger.Ledger
	pool *pgxpool.Pool
	set  string
}

func (s spoiled) Damage(ctx context.Context, id string) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_effects SET "+s.set+" WHERE id = $1", id)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"state = 'done'", "state = ''", "attempts = -1", "class = 7", "epoch = 0", "nonce = ''", "iteration = -1", "name = ''",
		"issued_at = 'infinity'", "issued_at = '-infinity'", "answered_at = 'infinity'",
		"answered_at = '-infinity'",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := create(t, p, nil)
			ledgertest.RunDamaged(t, func(t *testing.T) ledgertest.DamagingLedger {
				pgtest.Clear(t, p)
				return spoiled{l, p, set}
			})
		})
	}
}

// An effect that came to its state at an infinite time is damaged. A result that is taken comes with its own time.
func TestEndlessFinish(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"infinity", "-infinity"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := create(t, p, nil)
			for _, id := range []string{"a", "b", "c"} {
				issue(t, l, effect("run", id, 1))
			}
			if _, err := l.Finish(t.Context(), "b", 1, paid); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, p, l.Fill("UPDATE {effects} SET finished_at = $1::text::timestamptz WHERE id <> 'a'"), at)
			var seen, damaged []string
			for e, err := range l.Effects(t.Context(), ledger.Query{}) {
				seen = append(seen, e.ID)
				if d, is := errors.AsType[*ledger.DamagedError](err); is {
					damaged = append(damaged, d.ID)
				} else if err != nil {
					t.Errorf("Effects: %v", err)
				}
			}
			if fmt.Sprint(seen, damaged) != "[a b c] [b c]" {
				t.Errorf("Effects yields %v, of which %v are damaged", seen, damaged)
			}
			if now, err := l.Finish(t.Context(), "b", 1, paid); !errors.Is(err, ledger.ErrDamaged) || now.ID != "b" {
				t.Errorf("Finish of what is completed: %v, want %v", err, ledger.ErrDamaged)
			}
			if _, err := l.Finish(t.Context(), "c", 1, paid); err != nil {
				t.Errorf("Finish of what is open: %v", err)
			}
			if now := kept(t, l, "c"); now.FinishedAt.IsZero() || now.State != ledger.Completed {
				t.Errorf("kept: %+v", now)
			}
		})
	}
}

// A torn ledger damages effects by taking a block of their arguments away.
type torn struct {
	*pgledger.Ledger
	pool   *pgxpool.Pool
	prefix string
}

func (s torn) Damage(ctx context.Context, id string) error {
	const long = "UPDATE {effects} SET args = to_jsonb(repeat('x', 10000)) WHERE id = $1"
	if _, err := s.pool.Exec(ctx, s.Fill(long), id); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"effects")
}

// tearing returns a maker of ledgers whose documents are out of line.
func tearing(t *testing.T) func(t *testing.T) torn {
	_, p, _ := private(t, nil)
	n := 0
	return func(t *testing.T) torn {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		l := create(t, p, &pgledger.Options{Prefix: prefix})
		pgtest.Exec(t, p, l.Fill(`ALTER TABLE {effects} ALTER COLUMN args SET STORAGE EXTERNAL`))
		pgtest.Exec(t, p, l.Fill(`ALTER TABLE {effects} ALTER COLUMN result SET STORAGE EXTERNAL`))
		return torn{l, p, prefix}
	}
}

// An effect that the server itself cannot read is damaged, as is an effect that no ledger wrote.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	newTorn := tearing(t)
	ledgertest.RunDamaged(t, func(t *testing.T) ledgertest.DamagingLedger { return newTorn(t) })
}

// The result of an effect is kept, although the server cannot read the arguments. A result that is lost is damage.
func TestLostArguments(t *testing.T) {
	t.Parallel()
	l := tearing(t)(t)
	e := effect("run", "a", 1)
	e.Args = json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	e = issue(t, l.Ledger, e)
	if err := testenv.LoseChunk(t.Context(), l.pool, l.prefix+"effects"); err != nil {
		t.Fatal(err)
	}
	now, err := l.Finish(t.Context(), "a", e.Attempts, paid)
	if !errors.Is(err, ledger.ErrDamaged) || now.State != ledger.Completed || string(now.Result) != `"receipt"` {
		t.Errorf("Finish returns %+v, %v", now, err)
	}
	pgtest.Exec(t, l.pool, l.Fill("UPDATE {effects} SET args = NULL"))
	if now := kept(t, l.Ledger, "a"); now.State != ledger.Completed || string(now.Result) != `"receipt"` {
		t.Errorf("kept: %+v", now)
	}

	pgtest.Exec(t, l.pool, l.Fill("UPDATE {effects} SET result = to_jsonb(repeat('x', 10000))"))
	if err := testenv.LoseChunk(t.Context(), l.pool, l.prefix+"effects"); err != nil {
		t.Fatal(err)
	}
	asked := effect("run", "a", 1)
	now, issued, err := l.Issue(t.Context(), asked, true)
	if !errors.Is(err, ledger.ErrDamaged) || issued || now.State != ledger.Completed {
		t.Errorf("Issue returns %+v, issued %v, %v", now, issued, err)
	}
	asked.Class = ledger.Pure
	if now, err = l.Record(t.Context(), asked); !errors.Is(err, ledger.ErrDamaged) || now.State != ledger.Completed {
		t.Errorf("Record returns %+v, %v", now, err)
	}
	if now, err = l.Finish(t.Context(), "a", 1, paid); !errors.Is(err, ledger.ErrDamaged) ||
		now.State != ledger.Completed {
		t.Errorf("Finish returns %+v, %v", now, err)
	}
}
