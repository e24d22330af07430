package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If a statement of a call fails, the call fails and changes nothing. The same call succeeds later.
func TestStatementFails(t *testing.T) {
	t.Parallel()
	type call func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error
	claims := func(r checkpoint.ClaimRequest, session string) call {
		return func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error {
			if r.Nonce = request().Nonce; session == l.Session {
				r.From = l.Fence
			}
			r.TTL = time.Hour
			c, err := s.Claim(ctx, bot(session), r)
			if err != nil && c.Lease != (checkpoint.Lease{}) {
				return fmt.Errorf("a lease beside %w", err)
			}
			return err
		}
	}
	appends := func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error {
		return s.Append(ctx, l, turn(2), checkpoint.AppendOptions{Keep: 1})
	}
	marks := func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error {
		return s.Mark(ctx, l, checkpoint.Marks{Summarized: 1})
	}
	renews := func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error {
		lost, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
		if err == nil && len(lost) > 0 {
			err = errors.New("lost")
		}
		return err
	}
	deletes := func(ctx context.Context, s *sqlitecheckpoint.Store, l checkpoint.Lease) error {
		return s.Delete(ctx, l)
	}
	sweeps := func(ctx context.Context, s *sqlitecheckpoint.Store, _ checkpoint.Lease) error {
		n, err := s.Sweep(ctx, 0)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d retired", n)
		}
		return err
	}
	beats := func(process string) call {
		return func(ctx context.Context, s *sqlitecheckpoint.Store, _ checkpoint.Lease) error {
			_, err := s.Beat(ctx, process)
			return err
		}
	}
	rests := func(ctx context.Context, s *sqlitecheckpoint.Store, _ checkpoint.Lease) error {
		return s.Rest(ctx, "alive")
	}
	for _, c := range []struct {
		call      string
		statement string // an event of a trigger
		do        call
	}{
		{"Claim", "UPDATE OF nonce ON holdfast_sessions", claims(checkpoint.ClaimRequest{}, "settled")},
		{"Claim of a new session", "INSERT ON holdfast_sessions", claims(checkpoint.ClaimRequest{}, "new")},
		{"Claim with Born", "UPDATE OF born ON holdfast_sessions", claims(checkpoint.ClaimRequest{Born: 1}, "begun")},
		{"Append", "UPDATE OF turn ON holdfast_sessions", appends},
		{"Append", "INSERT ON holdfast_turns", appends},
		{"Append", "DELETE ON holdfast_turns", appends},
		{"Mark", "UPDATE OF summarized ON holdfast_sessions", marks},
		{"Renew", "UPDATE OF lease_until ON holdfast_sessions", renews},
		{"Delete", "DELETE ON holdfast_sessions", deletes},
		{"Delete", "DELETE ON holdfast_turns", deletes},
		{"Sweep", "DELETE ON holdfast_sessions", sweeps},
		{"Sweep", "DELETE ON holdfast_turns", sweeps},
		{"Beat", "UPDATE ON holdfast_beats", beats("alive")},
		{"the first Beat", "INSERT ON holdfast_beats", beats("new")},
		{"Rest", "DELETE ON holdfast_beats", rests},
	} {
		t.Run(c.call+": "+c.statement, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			s := create(t, db, &sqlitecheckpoint.Options{TTL: time.Nanosecond})
			l := mustClaim(t, s, "settled").Lease
			for i := range 2 {
				want(t, s.Append(t.Context(), l, turn(i), checkpoint.AppendOptions{}), nil)
			}
			idle := mustClaim(t, s, "idle").Lease
			want(t, s.Append(t.Context(), idle, turn(0), checkpoint.AppendOptions{Release: true}), nil)
			begun := mustClaim(t, s, "begun").Lease
			if strings.Contains(c.statement, "born") {
				l = begun
			}
			want(t, beats("alive")(t.Context(), s, l), nil)
			sqlitetest.Exec(t, db, "INSERT INTO holdfast_beats VALUES ('dead', 1, 1)")

			before := contents(t, db)
			sqlitetest.Fail(t, db, c.statement)
			if err := c.do(t.Context(), s, l); err == nil || !strings.Contains(err.Error(), sqlitetest.Failing) {
				t.Errorf("got %v", err)
			}
			if after := contents(t, db); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			sqlitetest.Mend(t, db)
			want(t, c.do(t.Context(), s, l), nil)
			if contents(t, db) == before {
				t.Error("the second call changes nothing")
			}
		})
	}
}

// A table is taken away while the store is in use. Every call that needs it fails and names ErrSchema. Once the table
// is back, everything is as before.
func TestTableGone(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, &sqlitecheckpoint.Options{TTL: time.Nanosecond})
	idle := mustClaim(t, s, "idle").Lease
	want(t, s.Append(t.Context(), idle, turn(0), checkpoint.AppendOptions{Release: true}), nil)
	l := mustClaim(t, s, "a").Lease
	for i := range 2 {
		cp := turn(i)
		cp.RequestID = fmt.Sprint("request-", i)
		want(t, s.Append(t.Context(), l, cp, checkpoint.AppendOptions{Owes: true}), nil)
	}
	fenced := l
	fenced.Fence.Epoch--
	claims := func(session, requestID string) func(context.Context) error {
		return func(ctx context.Context) error {
			r := request()
			r.RequestID = requestID
			if session == l.Session {
				r.From = l.Fence
			}
			c, err := s.Claim(ctx, bot(session), r)
			if err != nil && c.Lease != (checkpoint.Lease{}) {
				return fmt.Errorf("a lease beside: %v", err) // not a sentinel, so that the test fails
			}
			return err
		}
	}
	appends := func(l checkpoint.Lease) func(context.Context) error {
		return func(ctx context.Context) error { return s.Append(ctx, l, turn(2), checkpoint.AppendOptions{}) }
	}
	listed := func(q checkpoint.SessionQuery) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			q.Orchestrator = "bot"
			for _, e := range s.Sessions(ctx, q) {
				err = errors.Join(err, e)
			}
			return err
		}
	}
	tables := map[string]map[string]func(context.Context) error{
		"sessions": {
			"Claim": claims("a", ""), "Claim of a new session": claims("new", ""),
			"Append": appends(l), "Append by another": appends(fenced),
			"Mark": func(ctx context.Context) error { return s.Mark(ctx, l, checkpoint.Marks{Delivered: 1}) },
			"Renew": func(ctx context.Context) error {
				_, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
				return err
			},
			"Head":     func(ctx context.Context) error { _, err := s.Head(ctx, l.Key); return err },
			"Held":     func(ctx context.Context) error { _, err := s.Held(ctx, "bot", []string{"a"}); return err },
			"Sessions": listed(checkpoint.SessionQuery{}), "owing": listed(checkpoint.SessionQuery{Owing: true}),
			"Sweep":  func(ctx context.Context) error { _, err := s.Sweep(ctx, 0); return err },
			"Delete": func(ctx context.Context) error { return s.Delete(ctx, l) },
		},
		"turns": {
			"Claim": claims("a", ""), "Claim of a request": claims("a", "request-0"),
			"Claim of a new session": claims("new", ""),
			"Append":                 appends(l), "Append by another": appends(fenced),
			"Head of none": func(ctx context.Context) error { _, err := s.Head(ctx, bot("none")); return err },
			"Sweep":        func(ctx context.Context) error { _, err := s.Sweep(ctx, 0); return err },
			"Delete":       func(ctx context.Context) error { return s.Delete(ctx, l) },
			"Turns": func(ctx context.Context) (err error) {
				for _, e := range s.Turns(ctx, l.Key, checkpoint.Newest) {
					err = errors.Join(err, e)
				}
				return err
			},
		},
		"beats": {
			"Beat": func(ctx context.Context) error { _, err := s.Beat(ctx, "p"); return err },
			"look": func(ctx context.Context) error { _, err := s.Beat(ctx, ""); return err },
			"Rest": func(ctx context.Context) error { return s.Rest(ctx, "p") },
		},
	}
	before := contents(t, db)
	for table, calls := range tables {
		sqlitetest.Exec(t, db, "ALTER TABLE holdfast_"+table+" RENAME TO elsewhere")
		for name, call := range calls {
			t.Run(table+": "+name, func(t *testing.T) { want(t, call(t.Context()), checkpoint.ErrSchema) })
		}
		sqlitetest.Exec(t, db, "ALTER TABLE elsewhere RENAME TO holdfast_"+table)
		if after := contents(t, db); after != before {
			t.Errorf("without %s, from:\n%s\nto:\n%s", table, before, after)
		}
	}
	want(t, claims("a", "request-0")(t.Context()), nil)
}

func contents(t *testing.T, db *sql.DB) string {
	t.Helper()
	return sqlitetest.Contents(t, db, "holdfast_sessions", "holdfast_turns", "holdfast_beats")
}

// The file is removed while the store is in use. That concerns all sessions, so no error says that one is damaged.
func TestFileGoneForAll(t *testing.T) {
	t.Parallel()
	path := sqlitetest.File(t)
	s := create(t, sqlitetest.Open(t, sqlitetest.DSN(path)), nil)
	want(t, claim(t, s), nil)
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Claim(t.Context(), bot("a"), request())
	if c.Lease != (checkpoint.Lease{}) {
		t.Errorf("got lease %+v", c.Lease)
	}
	errs := callAll(t.Context(), s)
	errs["Claim of a session that is there"] = err
	for name, err := range errs {
		if d, one := errors.AsType[*checkpoint.DamagedError](err); one {
			t.Errorf("%s says that one session is damaged: %v", name, d)
		}
		want(t, err, checkpoint.ErrDamaged)
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
		"dead": checkpoint.Silence + time.Minute, "quiet": checkpoint.Silence - time.Minute,
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

// A turn is stored that the head does not know: somebody has changed one of them. The session is damaged, and an
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
