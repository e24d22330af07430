package pgcheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A spoiled store damages sessions by hand.
type spoiled struct {
	*pgcheckpoint.Store
	pool       *pgxpool.Pool
	head, turn string
}

func (s spoiled) DamageHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_sessions SET "+s.head+" WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func (s spoiled) LoseHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM holdfast_sessions WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func (s spoiled) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_turns SET "+s.turn+
		" WHERE orchestrator = $1 AND session = $2 AND turn = $3", k.Orchestrator, k.Session, turn)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ head, turn string }{
		{"born = 0", "run_id = ''"},
		{"summarized = -1", "run_id = ''"},
		{"failed = -1", "run_id = ''"},
		{"summarized = 99", "run_id = repeat('x', 600)"},
		{"born = 0", "saved_at = 'infinity'"},
		{"born = 0", "saved_at = '-infinity'"},
		{"born = 0", "route = ARRAY[NULL]::text[]"},
		{"born = 0", "route = ARRAY['a', NULL]"},
		{"born = 0", "route = ARRAY[['a', 'b'], ['c', 'd']]"},
	} {
		for name, o := range byEither {
			t.Run(name+", "+c.head+", "+c.turn, func(t *testing.T) {
				t.Parallel()
				p := pgtest.EmptyPool(t)
				s := pgcheckpoint.New(p, &o)
				create(t, p, s)
				checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
					pgtest.Clear(t, p)
					return spoiled{s, p, c.head, c.turn}
				})
			})
		}
	}
}

// A lease that ends at an infinite time is damage, whether the session has an owner or not. Delete removes the session.
func TestEndlessLease(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"lease_until = 'infinity'", "lease_until = '-infinity'", "lease_until = 'infinity', nonce = ''",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			s := pgcheckpoint.New(p, nil)
			create(t, p, s)
			l := claim(t, s, "a").Lease
			claim(t, s, "b")
			pgtest.Exec(t, p, s.Fill("UPDATE {sessions} SET "+set+" WHERE session = 'a'"))
			_, err := s.Head(t.Context(), key("a"))
			if d, is := errors.AsType[*checkpoint.DamagedError](err); !is || d.Key != key("a") {
				t.Errorf("Head: %v, want a *DamagedError of the session", err)
			}
			if _, err := s.Head(t.Context(), key("b")); err != nil {
				t.Errorf("Head of the other session: %v", err)
			}
			pgtest.Exec(t, p, s.Fill("UPDATE {sessions} SET nonce = $1 WHERE session = 'a'"), l.Fence.Nonce)
			r := request()
			r.Nonce = "other"
			switch c, err := s.Claim(t.Context(), key("a"), r); {
			case err == nil:
				l = c.Lease
				if _, err := s.Head(t.Context(), key("a")); err != nil {
					t.Errorf("Head after a claim: %v", err)
				}
			case !errors.Is(err, lock.ErrHeld):
				t.Errorf("Claim: %v, want %v", err, lock.ErrHeld)
			}
			if over := set == "lease_until = '-infinity'"; over != (l.Fence.Nonce == "other") {
				t.Errorf("another claim gets the session: %v", !over)
			}
			if err := s.Delete(t.Context(), l); err != nil {
				t.Errorf("Delete: %v", err)
			}
		})
	}
}

// A torn store damages turns by removing a block of their state.
type torn struct {
	spoiled
	prefix string
}

func (s torn) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	const long = `
		UPDATE {turns} SET state = to_jsonb(repeat('x', 10000)) WHERE orchestrator = $1 AND session = $2 AND turn = $3`
	if _, err := s.pool.Exec(ctx, s.Fill(long), k.Orchestrator, k.Session, turn); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"turns")
}

func (s torn) DamageHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx,
		s.Fill("UPDATE {sessions} SET born = 0 WHERE orchestrator = $1 AND session = $2"), k.Orchestrator, k.Session)
	return err
}

func (s torn) LoseHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx,
		s.Fill("DELETE FROM {sessions} WHERE orchestrator = $1 AND session = $2"), k.Orchestrator, k.Session)
	return err
}

// Data that the server itself cannot read is damaged too, like data that no store wrote.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL)
			n := 0
			checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
				n++
				o.Prefix = fmt.Sprintf("torn%d_", n)
				s := pgcheckpoint.New(p, &o)
				create(t, p, s)
				pgtest.Exec(t, p, s.Fill("ALTER TABLE {turns} ALTER COLUMN state SET STORAGE EXTERNAL"))
				return torn{spoiled{Store: s, pool: p}, o.Prefix}
			})
		})
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	checkpointtest.RunOutgrown(t, func(t *testing.T) checkpointtest.DamagingStore {
		p := pgtest.EmptyPool(t)
		s := pgcheckpoint.New(p, nil)
		create(t, p, s)
		const grown = "state = (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(0, 400000))"
		return spoiled{s, p, "", grown}
	})
}
