package snapshot_test

import (
	"context"
	"database/sql"
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

// tables are the tables that the calls write.
var tables = []string{"holdfast_runs", "holdfast_run_parts", "holdfast_sessions", "holdfast_turns"}

// A fallible store is on a database whose statements can be made fail.
type fallible interface {
	store
	snapshot.Joiner
	snapshot.Sweeper
}

// A caller makes one call of a store.
type caller struct {
	fallible
	plain  snapshot.Run // in flight, without parts
	parted snapshot.Run // in flight, with the part "a"
	ended  snapshot.Run // deleted
	turns  checkpoint.Store
	lease  checkpoint.Lease // of a session whose run has a part
}

func newCaller(t *testing.T, s fallible, turns checkpoint.Store) *caller {
	t.Helper()
	c := &caller{fallible: s, turns: turns}
	c.plain, c.ended = begin(t, s, run("plain")), begin(t, s, run("ended"))
	c.parted = adding(begin(t, s, run("parted")), "a")
	check(t, s.Save(t.Context(), c.parted))
	check(t, remove(t.Context(), s, c.ended))
	request := checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour}
	claimed, err := turns.Claim(t.Context(), key("joined"), request)
	check(t, err)
	c.lease = claimed.Lease
	joined := run("joined")
	joined.Fence, joined.Parts = c.lease.Fence, parts("a", 1)
	begin(t, s, joined)
	return c
}

func liteCaller(t *testing.T, dsn string) (*sql.DB, *caller) {
	t.Helper()
	db := sqlitetest.Open(t, dsn)
	return db, newCaller(t, liteOn(t, db, sqlitesnapshot.Options{Remember: time.Nanosecond}), liteTurns(t, db))
}

func (c *caller) begin(ctx context.Context) error {
	in, err := c.Begin(ctx, run("new"))
	return errors.Join(err, unless(in == nil, "a run is in flight"))
}

func (c *caller) beginWithPart(ctx context.Context) error {
	r := run("new")
	r.Parts = parts("a", 1)
	_, err := c.Begin(ctx, r)
	return err
}

func (c *caller) beginNext(ctx context.Context) error {
	_, err := c.Begin(ctx, runAs("ended", "next", 2))
	return err
}

func (c *caller) beginMeets(ctx context.Context) error {
	in, err := c.Begin(ctx, runAs("plain", "another", 2))
	return errors.Join(err, unless(err != nil || in != nil, "no run is in flight"))
}

func (c *caller) adopt(ctx context.Context) error { return take(ctx, c, "plain", 2) }

func (c *caller) adoptWithPart(ctx context.Context) error {
	r, err := c.Adopt(ctx, c.parted.Key, fence(2), 9)
	return errors.Join(err, unless(err != nil || len(r.Parts) == 1, "no part"))
}

func (c *caller) adoptNone(ctx context.Context) error {
	err := take(ctx, c, "none", 2)
	if errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	return err
}

func (c *caller) save(ctx context.Context) error           { return c.Save(ctx, next(c.plain)) }
func (c *caller) saveWithPart(ctx context.Context) error   { return c.Save(ctx, adding(c.plain, "b")) }
func (c *caller) saveWithout(ctx context.Context) error    { return c.Save(ctx, next(c.parted)) }
func (c *caller) delete(ctx context.Context) error         { return remove(ctx, c, c.plain) }
func (c *caller) deleteWithPart(ctx context.Context) error { return remove(ctx, c, c.parted) }

func (c *caller) sweep(ctx context.Context) error {
	n, err := c.Sweep(ctx, 0)
	return errors.Join(err, unless(err != nil || n == 1, fmt.Sprint(n, " forgotten")))
}

func (c *caller) raise(ctx context.Context) error {
	_, err := c.Raise(ctx, time.Time{})
	return err
}

func (c *caller) settle(ctx context.Context) error {
	cp := checkpoint.Checkpoint{RunID: "run-of-joined", State: []byte(`{}`), Signature: "sig"}
	forgotten, err := c.Join(c.turns)(ctx, c.lease, cp, checkpoint.AppendOptions{})
	return errors.Join(err, unless(err != nil || forgotten, "the run is still in flight"))
}

func (c *caller) list(ctx context.Context) error {
	_, err := list(ctx, c, "")
	return err
}

func (c *caller) one(ctx context.Context) error {
	_, err := list(ctx, c, "plain")
	return err
}

func (c *caller) oneBrief(ctx context.Context) (err error) {
	for _, e := range c.Runs(ctx, snapshot.Query{Key: c.plain.Key, Brief: true}) {
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

// A failing call has statements that fail, in each database. They are events of triggers.
type failing struct {
	call             string
	do               func(*caller, context.Context) error
	postgres, sqlite []string
}

const (
	insertsRun  = "INSERT ON holdfast_runs"
	updatesRun  = "UPDATE ON holdfast_runs"
	deletesRun  = "DELETE ON holdfast_runs"
	insertsPart = "INSERT ON holdfast_run_parts"
	deletesPart = "DELETE ON holdfast_run_parts"
	insertsTurn = "INSERT ON holdfast_turns"

	updatesSeq     = "UPDATE OF seq ON holdfast_runs"
	updatesEpoch   = "UPDATE OF epoch ON holdfast_runs"
	updatesFound   = "UPDATE OF found ON holdfast_runs"
	updatesFlag    = "UPDATE OF parts ON holdfast_runs"
	updatesPayload = "UPDATE OF payload ON holdfast_runs"
	updatesDeleted = "UPDATE OF deleted_at ON holdfast_runs"
)

var failings = []failing{
	{"Begin", (*caller).begin, []string{insertsRun}, []string{insertsRun}},
	{"Begin with a part", (*caller).beginWithPart, []string{insertsPart}, []string{insertsPart, updatesFlag}},
	{"Begin after another", (*caller).beginNext, []string{updatesRun}, nil},
	{"Begin meets a run", (*caller).beginMeets, []string{updatesRun}, []string{updatesFound}},
	{"Adopt", (*caller).adopt, []string{updatesRun}, []string{updatesEpoch}},
	{"Adopt with a part", (*caller).adoptWithPart, []string{updatesRun}, []string{updatesEpoch}},
	{"Adopt none", (*caller).adoptNone, []string{insertsRun}, []string{insertsRun}},
	{"Save", (*caller).save, []string{updatesRun}, []string{updatesPayload}},
	{"Save with a part", (*caller).saveWithPart, []string{insertsPart}, []string{updatesSeq, insertsPart, updatesFlag}},
	{"Save without a part", (*caller).saveWithout, nil, []string{updatesFlag, deletesPart, updatesPayload}},
	{"Delete", (*caller).delete, []string{updatesRun}, []string{updatesDeleted}},
	{"Delete with a part", (*caller).deleteWithPart, nil, []string{updatesFlag, deletesPart, updatesDeleted}},
	{"Sweep", (*caller).sweep, nil, []string{deletesRun}},
	{"Settle", (*caller).settle, nil, []string{insertsTurn, updatesFlag, deletesPart, updatesDeleted}},
	{"Raise", (*caller).raise, []string{updatesRun}, nil},
	{"Runs", (*caller).list, nil, nil},
	{"Runs of a session", (*caller).one, nil, nil},
	{"Runs of a session, Brief", (*caller).oneBrief, nil, nil},
}

// If a statement of a call fails, the call fails and changes nothing. The same call succeeds later.
func TestStatementFails(t *testing.T) {
	each(t, func(d database) bool { return d.failsWhole != nil }, func(t *testing.T, d database) {
		for _, f := range failings {
			for _, event := range d.event(f) {
				t.Run(f.call+": "+event, func(t *testing.T) { d.failsWhole(t, event, f.do) })
			}
		}
	})
}

// The file is removed in the middle of a call. What the call wrote is gone, and the call says so. That concerns all
// sessions, so the error does not say that this one is damaged.
func TestSQLiteFileGoneAmid(t *testing.T) {
	t.Parallel()
	for _, f := range failings {
		for _, event := range f.sqlite {
			t.Run(f.call+": "+event, func(t *testing.T) {
				path := sqlitetest.File(t)
				db, on := liteCaller(t, sqlitetest.DSN(path))
				sqlitetest.RemoveAmid(t, db, path, event)
				err := f.do(on, t.Context())
				_, one := errors.AsType[*snapshot.DamagedError](err)
				if !errors.Is(err, snapshot.ErrDamaged) || one || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v, want an error that names the file and no session", err)
				}
			})
		}
	}
}

// A table is taken away while the store is in use. Every call that needs it fails and names ErrSchema. Once the table
// is back, everything is as before.
func TestSQLiteTableGone(t *testing.T) {
	t.Parallel()
	db, on := liteCaller(t, testenv.SQLite(t))
	before := sqlitetest.Contents(t, db, tables...)
	for table, needed := range map[string]func(call string) bool{
		"runs":      func(string) bool { return true },
		"run_parts": func(call string) bool { return strings.Contains(call, "part") || call == "Settle" },
	} {
		sqlitetest.Exec(t, db, "ALTER TABLE holdfast_"+table+" RENAME TO elsewhere")
		for _, f := range failings {
			if !needed(f.call) {
				continue
			}
			t.Run(table+": "+f.call, func(t *testing.T) {
				err := f.do(on, t.Context())
				if f.call == "Settle" && err != nil && strings.Contains(err.Error(), "no such table") {
					return // the error is that of the other store, which has its tables
				}
				want(t, err, snapshot.ErrSchema)
			})
		}
		sqlitetest.Exec(t, db, "ALTER TABLE elsewhere RENAME TO holdfast_"+table)
		if after := sqlitetest.Contents(t, db, tables...); after != before {
			t.Errorf("without %s, from:\n%s\nto:\n%s", table, before, after)
		}
	}
}
