package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A caller makes one call of a store.
type caller struct {
	*sqlitecheckpoint.Store
	settled checkpoint.Lease // of a session with two turns
	begun   checkpoint.Lease // of a session without a turn
}

func newCaller(t *testing.T, db *sql.DB) *caller {
	t.Helper()
	c := &caller{Store: create(t, db, &sqlitecheckpoint.Options{TTL: time.Nanosecond})}
	idle := mustClaim(t, c, "idle").Lease
	want(t, c.Append(t.Context(), idle, turn(0), checkpoint.AppendOptions{Release: true}), nil)
	c.settled, c.begun = mustClaim(t, c, "settled").Lease, mustClaim(t, c, "begun").Lease
	for i := range 2 {
		cp := turn(i)
		cp.RequestID = fmt.Sprint("request-", i)
		want(t, c.Append(t.Context(), c.settled, cp, checkpoint.AppendOptions{}), nil)
	}
	want(t, c.beat(t.Context()), nil)
	sqlitetest.Exec(t, db, "INSERT INTO holdfast_beats VALUES ('dead', 1, 1)")
	return c
}

// try claims a session. If that fails, there must be no lease.
func (c *caller) try(ctx context.Context, session string, r checkpoint.ClaimRequest) error {
	got, err := c.Claim(ctx, bot(session), r)
	if err != nil && got.Lease != (checkpoint.Lease{}) {
		return fmt.Errorf("a lease beside: %v", err) // no sentinel is in it, so the test fails
	}
	return err
}

func (c *caller) claim(ctx context.Context) error {
	r := request()
	r.From = c.settled.Fence
	return c.try(ctx, "settled", r)
}

func (c *caller) claimRequest(ctx context.Context) error {
	r := request()
	r.From, r.RequestID = c.settled.Fence, "request-0"
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
	return c.Append(ctx, l, turn(2), checkpoint.AppendOptions{})
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

func (c *caller) beat(ctx context.Context) error      { _, err := c.Beat(ctx, "alive"); return err }
func (c *caller) firstBeat(ctx context.Context) error { _, err := c.Beat(ctx, "new"); return err }
func (c *caller) look(ctx context.Context) error      { _, err := c.Beat(ctx, ""); return err }
func (c *caller) rest(ctx context.Context) error      { return c.Rest(ctx, "alive") }
func (c *caller) head(ctx context.Context) error      { _, err := c.Head(ctx, c.settled.Key); return err }

func (c *caller) noHead(ctx context.Context) error { _, err := c.Head(ctx, bot("none")); return err }

func (c *caller) held(ctx context.Context) error {
	_, err := c.Held(ctx, "bot", []string{"settled"})
	return err
}

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

// tables are the tables that the calls write.
var tables = []string{"holdfast_sessions", "holdfast_turns", "holdfast_beats"}

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
		{"Claim", "UPDATE OF nonce ON holdfast_sessions", (*caller).claim},
		{"Claim of a new session", "INSERT ON holdfast_sessions", (*caller).claimNew},
		{"Claim with Born", "UPDATE OF born ON holdfast_sessions", (*caller).claimBorn},
		{"Append", "UPDATE OF turn ON holdfast_sessions", (*caller).append},
		{"Append", "INSERT ON holdfast_turns", (*caller).append},
		{"Append", "DELETE ON holdfast_turns", (*caller).append},
		{"Mark", "UPDATE OF summarized ON holdfast_sessions", (*caller).mark},
		{"Renew", "UPDATE OF lease_until ON holdfast_sessions", (*caller).renew},
		{"Delete", "DELETE ON holdfast_sessions", (*caller).delete},
		{"Delete", "DELETE ON holdfast_turns", (*caller).delete},
		{"Sweep", "DELETE ON holdfast_sessions", (*caller).sweep},
		{"Sweep", "DELETE ON holdfast_turns", (*caller).sweep},
		{"Beat", "UPDATE ON holdfast_beats", (*caller).beat},
		{"the first Beat", "INSERT ON holdfast_beats", (*caller).firstBeat},
		{"Rest", "DELETE ON holdfast_beats", (*caller).rest},
	} {
		t.Run(c.call+": "+c.statement, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			on := newCaller(t, db)
			call := func(ctx context.Context) error { return c.do(on, ctx) }
			sqlitetest.FailsWhole(t, db, c.statement, call, tables...)
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
		"sessions": {
			"Claim": on.claim, "Claim of a new session": on.claimNew, "Claim with Born": on.claimBorn,
			"Append": on.append, "Append by another": on.appendFenced, "Mark": on.mark, "Renew": on.renew,
			"Head": on.head, "Held": on.held, "Sessions": on.list, "Sessions that owe": on.listOwing,
			"Sweep": on.sweep, "Delete": on.delete,
		},
		"turns": {
			"Claim": on.claim, "Claim of a new session": on.claimNew, "Claim of a request": on.claimRequest,
			"Append": on.append, "Append by another": on.appendFenced, "Head of none": on.noHead,
			"Sweep": on.sweep, "Delete": on.delete, "Turns": on.turns,
		},
		"beats": {"Beat": on.beat, "the first Beat": on.firstBeat, "Beat of none": on.look, "Rest": on.rest},
	} {
		sqlitetest.Exec(t, db, "ALTER TABLE holdfast_"+table+" RENAME TO elsewhere")
		for name, call := range calls {
			t.Run(table+": "+name, func(t *testing.T) { want(t, call(t.Context()), checkpoint.ErrSchema) })
		}
		sqlitetest.Exec(t, db, "ALTER TABLE elsewhere RENAME TO holdfast_"+table)
		if after := contents(t, db); after != before {
			t.Errorf("without %s, from:\n%s\nto:\n%s", table, before, after)
		}
	}
	want(t, on.claimRequest(t.Context()), nil)
}

// The file is removed in the middle of a call. What the call wrote is gone, and the call says so. That concerns all
// sessions, so the error does not say that this one is damaged.
func TestFileGoneAmid(t *testing.T) {
	t.Parallel()
	for call, c := range map[string]struct {
		statement string
		do        func(*caller, context.Context) error
	}{
		"Claim":  {"UPDATE OF nonce ON holdfast_sessions", (*caller).claim},
		"Append": {"INSERT ON holdfast_turns", (*caller).append},
		"Mark":   {"UPDATE OF summarized ON holdfast_sessions", (*caller).mark},
		"Renew":  {"UPDATE OF lease_until ON holdfast_sessions", (*caller).renew},
		"Delete": {"DELETE ON holdfast_sessions", (*caller).delete},
	} {
		t.Run(call, func(t *testing.T) {
			kind.TestGoneAmid(t, c.statement, func(ctx context.Context, db *sql.DB) func() error {
				on := newCaller(t, db)
				return func() error { return c.do(on, ctx) }
			})
		})
	}
}

// A process that begins removes the processes that have been silent for long, and no others.
func TestSilent(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	beat := func(process, want string) {
		t.Helper()
		beats, err := s.Beat(t.Context(), process)
		names := make([]string, 0, len(beats))
		for _, name := range []string{"dead", "quiet", "a", "b"} {
			if _, ok := beats[name]; ok {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	beat("a", "a")
	for name, silent := range map[string]time.Duration{
		"dead": lock.Silence + time.Minute, "quiet": lock.Silence - time.Minute,
	} {
		at := time.Now().Add(-silent).UnixMicro()
		sqlitetest.Exec(t, db, fmt.Sprintf("INSERT INTO holdfast_beats VALUES ('%s', 1, %d)", name, at))
	}
	beat("a", "dead quiet a")
	sqlitetest.Fail(t, db, "DELETE ON holdfast_beats")
	if _, err := s.Beat(t.Context(), "c"); err == nil {
		t.Error("a Beat says nothing of a DELETE that fails")
	}
	sqlitetest.Mend(t, db)
	beat("b", "quiet a b")
}

// A turn is stored that the head does not know: a hand has changed one of them. The session is damaged, and an
// Append changes nothing.
func TestAppendMeetsTurn(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	l := mustClaim(t, s, "a").Lease
	for i := range 2 {
		want(t, s.Append(t.Context(), l, turn(i), checkpoint.AppendOptions{}), nil)
	}
	sqlitetest.Exec(t, db, "UPDATE holdfast_sessions SET turn = 0")
	before := contents(t, db)
	for _, keep := range []int{0, 1} { // the second one would also prune
		err := s.Append(t.Context(), l, turn(1), checkpoint.AppendOptions{Keep: keep})
		want(t, err, checkpoint.ErrDamaged)
		if d, ok := errors.AsType[*checkpoint.DamagedError](err); !ok || d.Key != l.Key {
			t.Errorf("got %v, which does not name the session", err)
		}
	}
	if after := contents(t, db); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// The epochs of a store grow, also if the clock is set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	last := time.Now().Add(time.Hour).UnixMicro()
	s.SetEpoch(last)
	for range 3 {
		l := mustClaim(t, s, "a").Lease
		if l.Fence.Epoch <= last {
			t.Errorf("epoch %d after %d", l.Fence.Epoch, last)
		}
		last = l.Fence.Epoch
		want(t, s.Delete(t.Context(), l), nil)
	}
}
