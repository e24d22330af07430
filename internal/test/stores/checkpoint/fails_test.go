package checkpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
)

// A caller makes one call of a store.
type caller struct {
	store
	settled checkpoint.Lease // of a session with two turns
	begun   checkpoint.Lease // of a session without a turn
}

// newCaller prepares a store whose sessions are idle at once.
func newCaller(t *testing.T, s store) *caller {
	t.Helper()
	c := &caller{store: s}
	settle(t, c, claim(t, c, "idle").Lease, checkpoint.AppendOptions{Release: true}, 0)
	c.settled, c.begun = claim(t, c, "settled").Lease, claim(t, c, "begun").Lease
	settle(t, c, c.settled, none, 0, 1)
	return c
}

// try claims a session. If that fails, there must be no lease.
func (c *caller) try(ctx context.Context, session string, r checkpoint.ClaimRequest) error {
	got, err := c.Claim(ctx, key(session), r)
	if err != nil && got.Lease != (checkpoint.Lease{}) {
		return fmt.Errorf("a lease beside: %v", err) // without the text and the sentinels that the tests look for
	}
	return err
}

func (c *caller) claim(ctx context.Context) error { return c.claimRequest(ctx, "") }

func (c *caller) claimAnswered(ctx context.Context) error { return c.claimRequest(ctx, "request-0") }

func (c *caller) claimRequest(ctx context.Context, id string) error {
	r := request()
	r.From, r.RequestID = c.settled.Fence, id
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

func (c *caller) appendFenced(ctx context.Context) error {
	l := c.settled
	l.Fence.Epoch--
	return c.Append(ctx, l, turn(2), none)
}

func (c *caller) mark(ctx context.Context) error {
	return c.Mark(ctx, c.settled, checkpoint.Marks{Summarized: 1})
}

func (c *caller) renew(ctx context.Context) error { return calls["Renew"](ctx, c, c.settled) }

func (c *caller) delete(ctx context.Context) error { return c.Delete(ctx, c.settled) }

func (c *caller) sweep(ctx context.Context) error {
	n, err := c.Sweep(ctx, 0)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d retired", n)
	}
	return err
}

func (c *caller) raise(ctx context.Context) error  { _, err := c.Raise(ctx, time.Time{}); return err }
func (c *caller) head(ctx context.Context) error   { _, err := c.Head(ctx, c.settled.Key); return err }
func (c *caller) noHead(ctx context.Context) error { _, err := c.Head(ctx, key("none")); return err }
func (c *caller) held(ctx context.Context) error   { return calls["Held"](ctx, c, c.settled) }

func (c *caller) list(ctx context.Context) error {
	return errorsOf(c.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot"}))
}

func (c *caller) listOwing(ctx context.Context) error {
	return errorsOf(c.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: true}))
}

func (c *caller) turns(ctx context.Context) error {
	return errorsOf(c.Turns(ctx, c.settled.Key, checkpoint.Newest))
}

func errorsOf[T any](all iter.Seq2[T, error]) (err error) {
	for _, e := range all {
		err = errors.Join(err, e)
	}
	return err
}

// A call is made by do. statement is one of its statements, as the event of a trigger.
type call struct {
	name, statement string
	do              func(*caller, context.Context) error
}

func (c call) on(s *caller) func(context.Context) error {
	return func(ctx context.Context) error { return c.do(s, ctx) }
}

// fails says how the statements of calls are made to fail.
type fails struct {
	calls []call
	// whole checks a call whose statement fails, on a store that it makes.
	whole func(t *testing.T, c call)
}

// events returns the calls with the statements that are in all databases, and the tables that they write.
func events(claim, born, append, mark, renew string) []call {
	return []call{
		{"Claim", "UPDATE" + claim + " ON holdfast_sessions", (*caller).claim},
		{"Claim of a new session", "INSERT ON holdfast_sessions", (*caller).claimNew},
		{"Claim with Born", "UPDATE" + born + " ON holdfast_sessions", (*caller).claimBorn},
		{"Append", "UPDATE" + append + " ON holdfast_sessions", (*caller).append},
		{"Append of a turn", "INSERT ON holdfast_turns", (*caller).append},
		{"Mark", "UPDATE" + mark + " ON holdfast_sessions", (*caller).mark},
		{"Renew", "UPDATE" + renew + " ON holdfast_sessions", (*caller).renew},
		{"Delete", "DELETE ON holdfast_sessions", (*caller).delete},
		{"Delete of turns", "DELETE ON holdfast_turns", (*caller).delete},
		{"Sweep", "DELETE ON holdfast_sessions", (*caller).sweep},
		{"Sweep of turns", "DELETE ON holdfast_turns", (*caller).sweep},
	}
}

var tables = []string{"holdfast_sessions", "holdfast_turns"}

var failsOnSQLite = &fails{
	calls: append(events(" OF nonce", " OF born", " OF turn", " OF summarized", " OF lease_until"),
		call{"Append that prunes", "DELETE ON holdfast_turns", (*caller).append}),
	whole: func(t *testing.T, c call) {
		s := newLite(t, sqlitecheckpoint.Options{TTL: time.Nanosecond})
		sqlitetest.FailsWhole(t, s.db, c.statement, c.on(newCaller(t, s)), tables...)
	},
}

func failsOnPostgres(o pgcheckpoint.Options) *fails {
	return &fails{
		calls: append(events("", "", "", "", ""), call{"Raise", "UPDATE ON holdfast_sessions", (*caller).raise}),
		whole: func(t *testing.T, c call) {
			s := newPG(t, pgcheckpoint.Options{TTL: time.Nanosecond, Functions: o.Functions})
			pgtest.FailsWhole(t, s.pool, c.statement, c.on(newCaller(t, s)), tables...)
		},
	}
}

// If a statement of a call fails, the call fails and changes nothing. The same call succeeds later.
func TestStatementFails(t *testing.T) {
	each(t, func(d database) bool { return d.fails != nil }, func(t *testing.T, d database) {
		for _, c := range d.fails.calls {
			t.Run(c.name, func(t *testing.T) { d.fails.whole(t, c) })
		}
	})
}

// A table is taken away while the store is in use. Every call that needs it fails and names ErrSchema. Once the table
// is back, everything is as before.
func TestSQLiteTableGone(t *testing.T) {
	t.Parallel()
	s := newLite(t, sqlitecheckpoint.Options{TTL: time.Nanosecond})
	on := newCaller(t, s)
	before := sqlitetest.Contents(t, s.db, tables...)
	for table, calls := range map[string]map[string]func(context.Context) error{
		"sessions": {
			"Claim": on.claim, "Claim of a new session": on.claimNew, "Claim with Born": on.claimBorn,
			"Append": on.append, "Append by another": on.appendFenced, "Mark": on.mark, "Renew": on.renew,
			"Head": on.head, "Held": on.held, "Sessions": on.list, "Sessions that owe": on.listOwing,
			"Sweep": on.sweep, "Delete": on.delete,
		},
		"turns": {
			"Claim": on.claim, "Claim of a new session": on.claimNew, "Claim of a request": on.claimAnswered,
			"Append": on.append, "Append by another": on.appendFenced, "Head of none": on.noHead,
			"Sweep": on.sweep, "Delete": on.delete, "Turns": on.turns,
		},
	} {
		sqlitetest.Exec(t, s.db, "ALTER TABLE holdfast_"+table+" RENAME TO elsewhere")
		for name, call := range calls {
			t.Run(table+": "+name, func(t *testing.T) { want(t, call(t.Context()), checkpoint.ErrSchema) })
		}
		sqlitetest.Exec(t, s.db, "ALTER TABLE elsewhere RENAME TO holdfast_"+table)
		if after := sqlitetest.Contents(t, s.db, tables...); after != before {
			t.Errorf("without %s, from:\n%s\nto:\n%s", table, before, after)
		}
	}
	want(t, on.claimAnswered(t.Context()), nil)
}

// The file is removed in the middle of a call. What the call wrote is gone, and the call says so. That concerns all
// sessions, so the error does not say that this one is damaged.
func TestSQLiteFileGoneAmid(t *testing.T) {
	t.Parallel()
	kind := sqlitetest.Kind[*sqlitecheckpoint.Store]{
		Damaged: checkpoint.ErrDamaged,
		OneDamaged: func(err error) bool {
			_, one := errors.AsType[*checkpoint.DamagedError](err)
			return one
		},
	}
	for _, c := range failsOnSQLite.calls {
		switch c.name {
		case "Claim", "Append of a turn", "Mark", "Renew", "Delete":
			t.Run(c.name, func(t *testing.T) {
				kind.TestGoneAmid(t, c.statement, func(ctx context.Context, db *sql.DB) func() error {
					do := c.on(newCaller(t, liteOn(t, db, sqlitecheckpoint.Options{TTL: time.Nanosecond})))
					return func() error { return do(ctx) }
				})
			})
		}
	}
}
