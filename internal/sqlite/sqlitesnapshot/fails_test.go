package sqlitesnapshot_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A caller makes one call of a store.
type caller struct {
	*sqlitesnapshot.Store
	plain  snapshot.Run // in flight, without parts
	parted snapshot.Run // in flight, with the part "a"
	turns  checkpoint.Store
	lease  checkpoint.Lease // of a session whose run has a part
}

func newCaller(t *testing.T, db *sql.DB) *caller {
	t.Helper()
	c := &caller{Store: create(t, db, &sqlitesnapshot.Options{Remember: time.Nanosecond}), turns: turnsOn(t, db)}
	c.plain, c.parted = begin(t, c, "plain"), withPart(begin(t, c, "parted"), "a")
	want(t, c.Save(t.Context(), c.parted), nil)
	old := begin(t, c, "old")
	want(t, c.Delete(t.Context(), old.Key, old.ID, old.Fence), nil)
	r := checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour}
	claimed, err := c.turns.Claim(t.Context(), bot("joined"), r)
	if err != nil {
		t.Fatal(err)
	}
	c.lease = claimed.Lease
	joined := run("joined")
	joined.Fence = c.lease.Fence
	joined.Parts = map[string]json.RawMessage{"a": json.RawMessage(`1`)}
	if in, err := c.Begin(t.Context(), joined); in != nil || err != nil {
		t.Fatal(in, err)
	}
	return c
}

func (c *caller) begin(ctx context.Context) error {
	in, err := c.Begin(ctx, run("new"))
	return errors.Join(err, unless(in == nil, "a run is in flight"))
}

func (c *caller) beginAgain(ctx context.Context) error {
	r := c.plain
	r.ID, r.Fence = "another", fence(2)
	in, err := c.Begin(ctx, r)
	return errors.Join(err, unless(err != nil || in != nil, "no run is in flight"))
}

func (c *caller) beginWithPart(ctx context.Context) error {
	r := run("new")
	r.Parts = map[string]json.RawMessage{"a": json.RawMessage(`1`)}
	_, err := c.Begin(ctx, r)
	return err
}

func (c *caller) adopt(ctx context.Context) error { return adopt(ctx, c, c.plain, fence(2)) }

func (c *caller) adoptWithPart(ctx context.Context) error {
	r, err := c.Adopt(ctx, c.parted.Key, fence(2), 9)
	return errors.Join(err, unless(err != nil || len(r.Parts) == 1, "no part"))
}

func (c *caller) adoptNone(ctx context.Context) error {
	_, err := c.Adopt(ctx, bot("none"), fence(2), 9)
	if errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	return err
}

func (c *caller) save(ctx context.Context) error         { return c.Save(ctx, next(c.plain)) }
func (c *caller) saveWithPart(ctx context.Context) error { return c.Save(ctx, withPart(c.plain, "b")) }

func (c *caller) saveWithout(ctx context.Context) error {
	r := next(c.parted)
	r.Parts = nil
	return c.Save(ctx, r)
}

func (c *caller) delete(ctx context.Context) error {
	return c.Delete(ctx, c.plain.Key, c.plain.ID, c.plain.Fence)
}

func (c *caller) deleteWithPart(ctx context.Context) error {
	return c.Delete(ctx, c.parted.Key, c.parted.ID, c.parted.Fence)
}

func (c *caller) sweep(ctx context.Context) error {
	n, err := c.Sweep(ctx, 0)
	return errors.Join(err, unless(err != nil || n == 1, fmt.Sprint(n, " forgotten")))
}

func (c *caller) settle(ctx context.Context) error {
	cp := checkpoint.Checkpoint{RunID: "run-of-joined", State: json.RawMessage(`{}`), Signature: "sig"}
	forgotten, err := c.Join(c.turns)(ctx, c.lease, cp, checkpoint.AppendOptions{})
	return errors.Join(err, unless(err != nil || forgotten, "the run is still in flight"))
}

func (c *caller) list(ctx context.Context) error { return c.query(ctx, snapshot.Query{Key: bot("")}) }

func (c *caller) one(ctx context.Context) error {
	return c.query(ctx, snapshot.Query{Key: c.plain.Key})
}

func (c *caller) oneBrief(ctx context.Context) error {
	return c.query(ctx, snapshot.Query{Key: c.plain.Key, Brief: true})
}

func (c *caller) query(ctx context.Context, q snapshot.Query) (err error) {
	for _, e := range c.Runs(ctx, q) {
		err = errors.Join(err, e)
	}
	return err
}

func unless(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

// tables are the tables that the calls write.
var tables = []string{"holdfast_runs", "holdfast_run_parts", "holdfast_sessions", "holdfast_turns"}

func contents(t *testing.T, db *sql.DB) string {
	t.Helper()
	return sqlitetest.Contents(t, db, tables...)
}

// If a statement of a call fails, the call fails and changes nothing. The same call succeeds later.
func TestStatementFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call      string
		statement string // an event of a trigger
		do        func(*caller, context.Context) error
	}{
		{"Begin", "INSERT ON holdfast_runs", (*caller).begin},
		{"Begin meets a run", "UPDATE OF found ON holdfast_runs", (*caller).beginAgain},
		{"Begin with a part", "INSERT ON holdfast_run_parts", (*caller).beginWithPart},
		{"Begin with a part", "UPDATE OF parts ON holdfast_runs", (*caller).beginWithPart},
		{"Adopt", "UPDATE OF epoch ON holdfast_runs", (*caller).adopt},
		{"Adopt with a part", "UPDATE OF epoch ON holdfast_runs", (*caller).adoptWithPart},
		{"Adopt none", "INSERT ON holdfast_runs", (*caller).adoptNone},
		{"Save", "UPDATE OF payload ON holdfast_runs", (*caller).save},
		{"Save with a part", "UPDATE OF seq ON holdfast_runs", (*caller).saveWithPart},
		{"Save with a part", "INSERT ON holdfast_run_parts", (*caller).saveWithPart},
		{"Save with a part", "UPDATE OF parts ON holdfast_runs", (*caller).saveWithPart},
		{"Save without a part", "UPDATE OF parts ON holdfast_runs", (*caller).saveWithout},
		{"Save without a part", "DELETE ON holdfast_run_parts", (*caller).saveWithout},
		{"Save without a part", "UPDATE OF payload ON holdfast_runs", (*caller).saveWithout},
		{"Delete", "UPDATE OF deleted_at ON holdfast_runs", (*caller).delete},
		{"Delete with a part", "UPDATE OF parts ON holdfast_runs", (*caller).deleteWithPart},
		{"Delete with a part", "DELETE ON holdfast_run_parts", (*caller).deleteWithPart},
		{"Delete with a part", "UPDATE OF deleted_at ON holdfast_runs", (*caller).deleteWithPart},
		{"Sweep", "DELETE ON holdfast_runs", (*caller).sweep},
		{"Settle", "INSERT ON holdfast_turns", (*caller).settle},
		{"Settle", "UPDATE OF parts ON holdfast_runs", (*caller).settle},
		{"Settle", "DELETE ON holdfast_run_parts", (*caller).settle},
		{"Settle", "UPDATE OF deleted_at ON holdfast_runs", (*caller).settle},
	} {
		t.Run(c.call+": "+c.statement, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			on := newCaller(t, db)
			call := func(ctx context.Context) error { return c.do(on, ctx) }
			sqlitetest.FailsWhole(t, db, c.statement, call, tables...)
		})
	}
}

// The file is removed in the middle of a call. What the call wrote is gone, and the call says so. That concerns all
// sessions, so the error does not say that this one is damaged.
func TestFileGoneAmid(t *testing.T) {
	t.Parallel()
	for call, c := range map[string]struct {
		statement string
		do        func(*caller, context.Context) error
	}{
		"Begin":              {"INSERT ON holdfast_runs", (*caller).begin},
		"Begin with a part":  {"INSERT ON holdfast_run_parts", (*caller).beginWithPart},
		"Adopt":              {"UPDATE OF epoch ON holdfast_runs", (*caller).adopt},
		"Adopt with a part":  {"UPDATE OF epoch ON holdfast_runs", (*caller).adoptWithPart},
		"Save":               {"UPDATE OF payload ON holdfast_runs", (*caller).save},
		"Save with a part":   {"INSERT ON holdfast_run_parts", (*caller).saveWithPart},
		"Delete":             {"UPDATE OF deleted_at ON holdfast_runs", (*caller).delete},
		"Delete with a part": {"DELETE ON holdfast_run_parts", (*caller).deleteWithPart},
	} {
		t.Run(call, func(t *testing.T) {
			kind.TestGoneAmid(t, c.statement, func(ctx context.Context, db *sql.DB) func() error {
				on := newCaller(t, db)
				return func() error { return c.do(on, ctx) }
			})
		})
	}
}

// A table is taken away while the store is in use. Every call that needs it fails and names ErrSchema. Once the table
// is back, everything is as before.
func TestTableGone(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	on := newCaller(t, db)
	before := contents(t, db)
	for table, calls := range map[string]map[string]func(context.Context) error{
		"runs": {
			"Begin": on.begin, "Begin meets a run": on.beginAgain, "Begin with a part": on.beginWithPart,
			"Adopt": on.adopt, "Adopt with a part": on.adoptWithPart, "Adopt none": on.adoptNone,
			"Save": on.save, "Save with a part": on.saveWithPart, "Save without a part": on.saveWithout,
			"Delete": on.delete, "Delete with a part": on.deleteWithPart,
			"Sweep": on.sweep, "Settle": on.settle,
			"Runs": on.list, "Runs of a session": on.one, "Runs of a session, Brief": on.oneBrief,
		},
		"run_parts": {
			"Begin with a part": on.beginWithPart, "Adopt with a part": on.adoptWithPart,
			"Save with a part": on.saveWithPart, "Save without a part": on.saveWithout,
			"Delete with a part": on.deleteWithPart, "Settle": on.settle,
		},
	} {
		sqlitetest.Exec(t, db, "ALTER TABLE holdfast_"+table+" RENAME TO elsewhere")
		for name, call := range calls {
			t.Run(table+": "+name, func(t *testing.T) {
				err := call(t.Context())
				if name == "Settle" && err != nil && strings.Contains(err.Error(), "no such table") {
					return // the error is that of the other store, which has its tables
				}
				want(t, err, snapshot.ErrSchema)
			})
		}
		sqlitetest.Exec(t, db, "ALTER TABLE elsewhere RENAME TO holdfast_"+table)
		if after := contents(t, db); after != before {
			t.Errorf("without %s, from:\n%s\nto:\n%s", table, before, after)
		}
	}
}
