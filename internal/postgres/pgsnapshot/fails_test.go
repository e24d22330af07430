package pgsnapshot_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A caller makes one call of a store.
type caller struct {
	*pgsnapshot.Store
	plain  snapshot.Run // in flight, without parts
	parted snapshot.Run // in flight, with the part "a"
	ended  snapshot.Run // deleted
}

func newCaller(t *testing.T, p *pgxpool.Pool, o *pgsnapshot.Options) *caller {
	t.Helper()
	c := &caller{create(t, p, o), run("plain"), adding(run("parted"), "a"), run("ended")}
	for _, r := range []snapshot.Run{c.plain, c.parted, c.ended} {
		if in, err := c.Begin(t.Context(), r); in != nil || err != nil {
			t.Fatal(in, err)
		}
	}
	if err := c.Delete(t.Context(), c.ended.Key, c.ended.ID, c.ended.Fence); err != nil {
		t.Fatal(err)
	}
	return c
}

// later is the fence of a later owner.
func later(r snapshot.Run) lock.Fence { return lock.Fence{Epoch: r.Fence.Epoch + 1, Nonce: "later"} }

func (c *caller) begin(ctx context.Context) error {
	in, err := c.Begin(ctx, run("new"))
	return errors.Join(err, unless(in == nil, "a run is in flight"))
}

func (c *caller) beginWithPart(ctx context.Context) error {
	_, err := c.Begin(ctx, adding(run("new"), "a"))
	return err
}

func (c *caller) beginNext(ctx context.Context) error {
	r := c.ended
	r.ID, r.Fence = "next", later(r)
	_, err := c.Begin(ctx, r)
	return err
}

func (c *caller) beginMeets(ctx context.Context) error {
	r := c.plain
	r.ID, r.Fence = "another", later(r)
	in, err := c.Begin(ctx, r)
	return errors.Join(err, unless(err != nil || in != nil, "no run is in flight"))
}

func (c *caller) adopt(ctx context.Context) error {
	_, err := c.Adopt(ctx, c.plain.Key, later(c.plain), 9)
	return err
}

func (c *caller) adoptWithPart(ctx context.Context) error {
	r, err := c.Adopt(ctx, c.parted.Key, later(c.parted), 9)
	return errors.Join(err, unless(err != nil || len(r.Parts) == 1, "no part"))
}

func (c *caller) adoptNone(ctx context.Context) error {
	none := run("none")
	_, err := c.Adopt(ctx, none.Key, later(none), 9)
	if errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	return err
}

func (c *caller) save(ctx context.Context) error { return c.Save(ctx, saving(c.plain)) }
func (c *caller) saveWithPart(ctx context.Context) error {
	return c.Save(ctx, adding(saving(c.plain), "b"))
}

func (c *caller) delete(ctx context.Context) error {
	return c.Delete(ctx, c.plain.Key, c.plain.ID, c.plain.Fence)
}

func (c *caller) raise(ctx context.Context) error {
	_, err := c.Raise(ctx, time.Time{})
	return err
}

func unless(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
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
				{"Begin", "INSERT ON holdfast_runs", (*caller).begin},
				{"Begin with a part", "INSERT ON holdfast_run_parts", (*caller).beginWithPart},
				{"Begin after another", "UPDATE ON holdfast_runs", (*caller).beginNext},
				{"Begin meets a run", "UPDATE ON holdfast_runs", (*caller).beginMeets},
				{"Adopt", "UPDATE ON holdfast_runs", (*caller).adopt},
				{"Adopt with a part", "UPDATE ON holdfast_runs", (*caller).adoptWithPart},
				{"Adopt none", "INSERT ON holdfast_runs", (*caller).adoptNone},
				{"Save", "UPDATE ON holdfast_runs", (*caller).save},
				{"Save with a part", "INSERT ON holdfast_run_parts", (*caller).saveWithPart},
				{"Delete", "UPDATE ON holdfast_runs", (*caller).delete},
				{"Raise", "UPDATE ON holdfast_runs", (*caller).raise},
			} {
				t.Run(c.call, func(t *testing.T) {
					p := pgtest.EmptyPool(t)
					on := newCaller(t, p, &o)
					call := func(ctx context.Context) error { return c.do(on, ctx) }
					pgtest.FailsWhole(t, p, c.statement, call, "holdfast_runs", "holdfast_run_parts")
				})
			}
		})
	}
}
