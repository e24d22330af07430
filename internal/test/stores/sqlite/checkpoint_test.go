package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/lock"
)

var turns = contract{
	name: "checkpoint",
	open: func(db *sql.DB, o options) subject {
		return turnStore{sqlitecheckpoint.New(db, &sqlitecheckpoint.Options{Prefix: o.prefix, TTL: max(o.age, 0)})}
	},
	tables:   []string{"holdfast_sessions", "holdfast_turns"},
	longest:  "turns_request",
	verdicts: []error{checkpoint.ErrInvalid},
	missing: []missing{
		{
			"both", "DROP TABLE holdfast_sessions; DROP TABLE holdfast_turns", "table holdfast_sessions", "Sweep",
		},
		{
			"turns", "DROP TABLE holdfast_turns", "table holdfast_turns", "Claim Renew Mark Sessions Delete Sweep",
		},
		{
			"column", "ALTER TABLE holdfast_turns DROP COLUMN version", "column version of table holdfast_turns",
			"Claim Renew Mark Sessions Delete Sweep",
		},
		{
			"column of sessions", "ALTER TABLE holdfast_sessions DROP COLUMN owner",
			"column owner of table holdfast_sessions", "Renew Mark Sessions Append Turns Sweep",
		},
	},
	unreachable: func(t *testing.T, s subject) { checkpointtest.RunUnreachable(t, s.(turnStore)) },

	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_sessions SELECT 'bot', printf('s%04d', i), 1, '', '', iif(i % 5 = 0, 9e15, 1),
			1, 0, 0, 0, 0, iif(i % 7 = 0, 0, NULL), i % 14 = 0, iif(i % 14 = 0, 9e15, 0) FROM n;
		INSERT INTO holdfast_turns SELECT orchestrator, session, 0, '0', NULL, '[]', '', '', 'r', 'request', 1
		FROM holdfast_sessions`,
	plans: map[string]string{
		"INDEXED BY holdfast_sessions_owed": "holdfast_sessions_owed (orchestrator=? AND session>? AND session<?)",
		"request_id = ?3 AND turn":          "holdfast_turns_request (orchestrator=? AND session=? AND request_id=? AND turn<?)",
		"AND turn >= 0 ORDER BY session":    "(orchestrator=? AND session>? AND session<?)",
		"turn >= ?3 AND turn < ?4":          "(orchestrator=? AND session=? AND turn>? AND turn<?)",
		"LIMIT 1 OFFSET ?3":                 "PRIMARY KEY ((orchestrator,session)>(?,?))",
		"(orchestrator, session) <= (?3, ?4)": "PRIMARY KEY ((orchestrator,session)>(?,?) AND " +
			"(orchestrator,session)<(?,?))",
	},
	// Of a row a process, Raise, and what is due, which is sorted by name.
	scans: []string{"holdfast_beats", "WHERE nonce <> ''", "INDEXED BY holdfast_labels_due"},
	lists: turnLists,
	sweep: sweep{
		stays: func(i int) bool { return i%5 == 0 || i%7 == 0 },
		call: func(ctx context.Context, s subject, limit int) (int, error) {
			return s.(turnStore).Sweep(ctx, limit)
		},
		limited: true,
		left:    "SELECT count(*) FROM holdfast_turns",
	},
	whole: []string{
		`SELECT count(*) FROM holdfast_sessions h WHERE turn - first + 1 <>
			(SELECT count(*) FROM holdfast_turns t WHERE t.session = h.session AND turn BETWEEN first AND h.turn)`,
		`SELECT count(*) FROM holdfast_turns WHERE session NOT IN (SELECT session FROM holdfast_sessions)`,
		`SELECT count(*) FROM holdfast_turns t JOIN holdfast_sessions h USING (session)
			WHERE t.turn < h.first OR t.turn > h.turn`,
	},
	killed: appendForever,
	check: func(t *testing.T, s subject, _ *sql.DB) func(string) {
		seen := 0
		return func(last string) {
			var n int
			if _, err := fmt.Sscan(last, &n); err != nil || n < seen {
				t.Fatalf("turn %s was acknowledged after %d: %v", last, seen, err)
			}
			if seen = len(keptRuns(t, s.(turnStore))); seen != n+1 && seen != n+2 {
				t.Errorf("%d turns are kept, %d were acknowledged", seen, n+1)
			}
		}
	},
	contend: func(db *sql.DB, say func(any)) error {
		stores := []*sqlitecheckpoint.Store{sqlitecheckpoint.New(db, nil), sqlitecheckpoint.New(db, nil)}
		return together(15, always, func(i int) error { return contendForTurn(stores[i%len(stores)], say) })
	},
	processes: turnProcesses,
	torn: torn{
		n: 30, at: 12,
		write: func(ctx context.Context, s subject, i int, text string) error {
			cp := turn(i)
			cp.State, cp.RequestID = json.RawMessage(`"`+text+`"`), fmt.Sprint("request-", i)
			c, err := s.(turnStore).Claim(ctx, bot("a"), request())
			if err != nil {
				return err
			}
			return s.(turnStore).Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Release: true})
		},
		check: func(t *testing.T, s subject, _ torn, _ string) {
			seq := named(s.(turnStore).Turns(t.Context(), bot("a"), checkpoint.Newest), turnName)
			all, damaged := damagedIn(t, seq)
			if len(all) != 30 || all[0] != "turn 29" || all[29] != "turn 00" ||
				!slices.Equal(damaged, []string{"turn 12"}) {
				t.Errorf("turns %v, of which damaged are %v", all, damaged)
			}
		},
	},
}

func always() bool { return true }

type turnStore struct{ *sqlitecheckpoint.Store }

func bot(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: "bot", Session: session} }

func turn(n int) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: n, RunID: fmt.Sprintf("run-%d", n), State: json.RawMessage(`{}`), Signature: "sig",
	}
}

func turnName(cp checkpoint.Checkpoint) string { return fmt.Sprintf("turn %02d", cp.Turn) }

// nonces are apart from those of other processes.
var nonces atomic.Int64

func request() checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "test", Nonce: fmt.Sprintf("nonce-%d", nonces.Add(1)), TTL: time.Hour}
}

func mustClaim(t *testing.T, s checkpoint.Store, k checkpoint.Key) checkpoint.Lease {
	t.Helper()
	c, err := s.Claim(t.Context(), k, request())
	if err != nil {
		t.Fatal(err)
	}
	return c.Lease
}

// rob claims a session, also from its owner.
func rob(ctx context.Context, s checkpoint.Store, session string) (checkpoint.Claimed, error) {
	r := request()
	r.Nonce = fmt.Sprint(rand.Uint64())
	c, err := s.Claim(ctx, bot(session), r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		r.From = held.Fence
		c, err = s.Claim(ctx, bot(session), r)
	}
	return c, err
}

func (s turnStore) sessions(ctx context.Context) error {
	return yielded(s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot"}))
}

func (s turnStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	r := request()
	c, err := s.Claim(ctx, bot("all of "+r.Nonce), r)
	errs["Claim"] = err
	l := c.Lease
	if err != nil {
		l = checkpoint.Lease{Key: bot("a")}
		l.Fence.Nonce = "none"
	}
	errs["Append"] = s.Append(ctx, l, turn(0), checkpoint.AppendOptions{})
	_, errs["Renew"] = s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
	errs["Mark"] = s.Mark(ctx, l, checkpoint.Marks{Summarized: 1})
	errs["Turns"] = yielded(s.Turns(ctx, bot("a"), checkpoint.Newest))
	errs["Sessions"] = s.sessions(ctx)
	_, errs["Sweep"] = s.Sweep(ctx, 0)
	errs["Delete"] = s.Delete(ctx, l)
	return errs
}

func (s turnStore) ready(t *testing.T) []call {
	l := mustClaim(t, s, bot("a"))
	return []call{
		{do: func(ctx context.Context) error { return s.Append(ctx, l, turn(0), checkpoint.AppendOptions{}) }},
		{do: func(ctx context.Context) error { return s.Delete(ctx, l) }},
		{do: func(ctx context.Context) error { _, err := s.Claim(ctx, bot("b"), request()); return err }},
		{reads: true, do: s.sessions},
	}
}

// What is there is judged in the end, by turns.whole.
func (s turnStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	c, err := rob(t.Context(), s, fmt.Sprint("s", n%5))
	want(t, err, nil)
	next := 0
	if c.Last != nil {
		next = c.Last.Turn + 1
	}
	calls := []func(ctx context.Context) error{
		func(ctx context.Context) error {
			return s.Append(ctx, c.Lease, turn(next), checkpoint.AppendOptions{Keep: 2, Owes: true})
		},
		func(ctx context.Context) error {
			return s.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: next, Release: true})
		},
		func(ctx context.Context) error {
			_, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease})
			return err
		},
		func(ctx context.Context) error { _, err := s.Sweep(ctx, 0); return err },
		func(ctx context.Context) error { return s.Delete(ctx, c.Lease) },
		func(ctx context.Context) error {
			return errors.Join(s.sessions(ctx), yielded(s.Turns(ctx, c.Key, checkpoint.Newest)))
		},
	}
	return cut{do: calls[rand.N(len(calls))]}
}

func turnLists(t *testing.T, of subject) []list {
	s := of.(turnStore)
	other := checkpoint.Key{Orchestrator: "other", Session: "a"}
	l := mustClaim(t, s, other)
	for n := range 30 {
		want(t, s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{}), nil)
	}
	sessions := func(what string, q checkpoint.SessionQuery, n, step, first int) list {
		q.Orchestrator = "bot"
		return list{
			what, named(s.Sessions(t.Context(), q), strings.Clone), n,
			func(i int) string { return fmt.Sprintf("s%04d", first+i*step) },
			func(ctx context.Context, i int) error { _, err := rob(ctx, s, fmt.Sprint("touched", i)); return err },
		}
	}
	return []list{
		sessions("all", checkpoint.SessionQuery{}, 1000, 1, 0),
		sessions("some", checkpoint.SessionQuery{After: "s0009", Limit: 700}, 700, 1, 10),
		sessions("owing", checkpoint.SessionQuery{Owing: true}, 143, 7, 0),
		sessions("due", checkpoint.SessionQuery{Owing: true, Due: true}, 71, 14, 7),
		{
			"turns", named(s.Turns(t.Context(), other, checkpoint.Newest), turnName), 30,
			func(i int) string { return turnName(turn(29 - i)) }, nil,
		},
	}
}

// A process that takes a session settles on top of the turn that its claim returned. It reports each acknowledged turn.
func turnProcesses(t *testing.T, s subject, _ *sql.DB, dsn string) {
	acknowledged := make(map[string]string) // run by session and turn
	contended(t, "checkpoint", dsn, 4, func(turn [2]string) {
		if other, ok := acknowledged[turn[0]]; ok {
			t.Errorf("turn %s was acknowledged to %s and %s", turn[0], other, turn[1])
		}
		acknowledged[turn[0]] = turn[1]
	})
	kept := keptRuns(t, s.(turnStore))
	for turn, run := range acknowledged {
		if kept[turn] != run {
			t.Errorf("turn %s was acknowledged to %q, and %q is kept", turn, run, kept[turn])
		}
	}
	if len(acknowledged) < 20 {
		t.Errorf("only %d turns were settled", len(acknowledged))
	}
	t.Logf("%d turns acknowledged, %d kept", len(acknowledged), len(kept))
}

// keptRuns returns the runs of all sessions, after checking that each follows the one before.
func keptRuns(t *testing.T, s checkpoint.Store) map[string]string {
	t.Helper()
	kept := make(map[string]string)
	for session, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot"}) {
		want(t, err, nil)
		next, follows := -1, ""
		for cp, err := range s.Turns(t.Context(), bot(session), checkpoint.Newest) {
			want(t, err, nil)
			if next >= 0 && (cp.Turn != next-1 || cp.RunID != follows) {
				t.Errorf("session %s: turn %d of %s precedes turn %d, which follows %s",
					session, cp.Turn, cp.RunID, next, follows)
			}
			next = cp.Turn
			want(t, json.Unmarshal(cp.State, &follows), nil)
			kept[fmt.Sprintf("%s/%d", session, cp.Turn)] = cp.RunID
		}
		if next != 0 {
			t.Errorf("session %s: the oldest turn is %d", session, next)
		}
	}
	return kept
}

// contendForTurn settles a turn of one of three sessions.
func contendForTurn(s *sqlitecheckpoint.Store, say func(any)) error {
	ctx := context.Background()
	session := fmt.Sprintf("s%d", rand.N(3))
	ttl := time.Millisecond + rand.N(5*time.Millisecond)
	run := fmt.Sprintf("%016x", rand.Uint64())
	c, err := s.Claim(ctx, bot(session), checkpoint.ClaimRequest{Nonce: run, TTL: ttl})
	if errors.Is(err, lock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	cp, follows := checkpoint.Checkpoint{RunID: run}, ""
	if c.Last != nil {
		cp.Turn, follows = c.Last.Turn+1, c.Last.RunID
	}
	cp.State, _ = json.Marshal(follows)
	o := checkpoint.AppendOptions{Keep: checkpoint.KeepAll, Release: rand.N(2) == 0}
	if rand.N(4) == 0 {
		go s.Append(ctx, c.Lease, cp, o) // a copy that comes late
	}
	err = s.Append(ctx, c.Lease, cp, o)
	if errors.Is(err, lock.ErrFenced) {
		return nil
	}
	if err == nil {
		say([2]string{fmt.Sprintf("%s/%d", session, cp.Turn), run})
	}
	return err
}

// appendForever tells each turn that it has settled, turn after turn.
func appendForever(db *sql.DB, say func(...any)) error {
	ctx, s := context.Background(), sqlitecheckpoint.New(db, nil)
	c, err := rob(ctx, s, "s")
	cp := checkpoint.Checkpoint{State: json.RawMessage(`""`)}
	if c.Last != nil {
		cp = *c.Last
		cp.Turn++
	}
	for ; err == nil; cp.Turn++ {
		cp.State, _ = json.Marshal(cp.RunID)
		cp.RunID = fmt.Sprintf("run-%d", cp.Turn)
		if err = s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: checkpoint.KeepAll}); err == nil {
			say(cp.Turn)
		}
	}
	return err
}

// If SQLite itself cannot read the newest turn, or the turn that answered the request, the claim says that the
// session is damaged. It returns a lease.
func TestClaimTorn(t *testing.T) {
	t.Parallel()
	for at, request := range []string{"request-0", ""} {
		path := sqlitetest.File(t)
		s := turns.tear(t, path, 2, at).(turnStore)
		before := count(t, sqlitetest.Open(t, sqlitetest.DSN(path)), "SELECT epoch FROM holdfast_sessions")
		r := checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour, RequestID: request}
		c, err := s.Claim(t.Context(), bot("a"), r)
		if d, ok := errors.AsType[*checkpoint.DamagedError](err); !ok || d.Key != bot("a") {
			t.Errorf("turn %d is torn: got %v", at, err)
		}
		if c.Fence.Nonce != "n" || c.Fence.Epoch <= int64(before) {
			t.Errorf("turn %d is torn: got lease %+v", at, c.Lease)
		}
		want(t, s.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true}), nil)
	}
}
