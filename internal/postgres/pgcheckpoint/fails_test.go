package pgcheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
)

// A caller makes one call of a store.
type caller struct {
	*pgcheckpoint.Store
	settled checkpoint.Lease // of a session with two turns
	begun   checkpoint.Lease // of a session without a turn
}

func newCaller(t *testing.T, p *pgxpool.Pool, o pgcheckpoint.Options) *caller {
	t.Helper()
	o.TTL = time.Nanosecond
	c := &caller{Store: pgtest.Create(t, p, pgcheckpoint.New(p, &o))}
	idle := claim(t, c, "idle").Lease
	last := checkpoint.AppendOptions{Release: true}
	if err := c.Append(t.Context(), idle, turn(0), last); err != nil {
		t.Fatal(err)
	}
	c.settled, c.begun = claim(t, c, "settled").Lease, claim(t, c, "begun").Lease
	for i := range 2 {
		if err := c.Append(t.Context(), c.settled, turn(i), checkpoint.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// try claims a session. If that fails, there must be no lease.
func (c *caller) try(ctx context.Context, session string, r checkpoint.ClaimRequest) error {
	got, err := c.Claim(ctx, key(session), r)
	if err != nil && got.Lease != (checkpoint.Lease{}) {
		return fmt.Errorf("a lease beside: %v", err) // without the text that the test looks for
	}
	return err
}

func (c *caller) claim(ctx context.Context) error {
	r := request()
	r.From = c.settled.Fence
	return c.try(ctx, "settled", r)
}

func (c *caller) claimBorn(ctx context.Context) error {
	r := request()
	r.From, r.Born = c.begun.Fence, 1
	return c.try(ctx, "begun", r)
}

func (c *caller) claimNew(ctx context.Context) error { return c.try(ctx, "new", request()) }

func (c *caller) append(ctx context.Context) error {
	return c.Append(ctx, c.settled, turn(2), checkpoint.AppendOptions{Keep: 1})
}

func (c *caller) mark(ctx context.Context) error {
	return c.Mark(ctx, c.settled, checkpoint.Marks{Summarized: 1})
}

func (c *caller) renew(ctx context.Context) error {
	lost, err := c.Renew(ctx, time.Hour, []checkpoint.Lease{c.settled})
	if err == nil && len(lost) > 0 {
		err = errors.New("the lease is lost")
	}
	return err
}

func (c *caller) delete(ctx context.Context) error { return c.Delete(ctx, c.settled) }

func (c *caller) sweep(ctx context.Context) error {
	n, err := c.Sweep(ctx, 0)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d retired", n)
	}
	return err
}

func (c *caller) raise(ctx context.Context) error {
	_, err := c.Raise(ctx, time.Time{})
	return err
}

// If a statement of a call fails, the call fails and changes nothing. The same call succeeds later.
func TestStatementFails(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				call      string
				statement string // an event of a trigger
				do        func(*caller, context.Context) error
			}{
				{"Claim", "UPDATE ON holdfast_sessions", (*caller).claim},
				{"Claim of a new session", "INSERT ON holdfast_sessions", (*caller).claimNew},
				{"Claim with Born", "UPDATE ON holdfast_sessions", (*caller).claimBorn},
				{"Append", "UPDATE ON holdfast_sessions", (*caller).append},
				{"Append of a turn", "INSERT ON holdfast_turns", (*caller).append},
				{"Mark", "UPDATE ON holdfast_sessions", (*caller).mark},
				{"Renew", "UPDATE ON holdfast_sessions", (*caller).renew},
				{"Delete", "DELETE ON holdfast_sessions", (*caller).delete},
				{"Delete of turns", "DELETE ON holdfast_turns", (*caller).delete},
				{"Sweep", "DELETE ON holdfast_sessions", (*caller).sweep},
				{"Sweep of turns", "DELETE ON holdfast_turns", (*caller).sweep},
				{"Raise", "UPDATE ON holdfast_sessions", (*caller).raise},
			} {
				t.Run(c.call, func(t *testing.T) {
					p := pgtest.EmptyPool(t)
					on := newCaller(t, p, o)
					call := func(ctx context.Context) error { return c.do(on, ctx) }
					pgtest.FailsWhole(t, p, c.statement, call, "holdfast_sessions", "holdfast_turns")
				})
			}
		})
	}
}
