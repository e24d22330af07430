package orchestrator_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

var errNode = errors.New("node 7 does not answer")

// awayRuns cannot reach the runs of some sessions. It knows that they are there.
type awayRuns struct {
	snapshot.Store
	gone map[string]bool
}

func (s awayRuns) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if q.Session != "" && s.gone[q.Session] {
			yield(snapshot.Run{}, errNode)
			return
		}
		whole := q
		whole.Status, whole.Unattended = "", false
		for r, err := range s.Store.Runs(ctx, whole) {
			if s.gone[r.Session] {
				r, err = snapshot.Run{Key: r.Key}, &snapshot.AwayError{Key: r.Key, Err: errNode}
			}
			if (err != nil || q.Selects(r.Status)) && !yield(r, err) {
				return
			}
		}
	}
}

// awaySessions cannot reach the same sessions.
type awaySessions struct {
	checkpoint.Store
	gone map[string]bool
}

func (s awaySessions) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range s.Store.Sessions(ctx, q) {
			if s.gone[id] {
				k := checkpoint.Key{Orchestrator: q.Orchestrator, Session: id}
				err = &checkpoint.AwayError{Key: k, Err: errNode}
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

func (s awaySessions) Held(ctx context.Context, name string, sessions []string) (map[string]string, error) {
	for _, id := range sessions {
		if s.gone[id] {
			k := checkpoint.Key{Orchestrator: name, Session: id}
			return nil, &checkpoint.AwayError{Key: k, Err: errNode}
		}
	}
	return s.Store.Held(ctx, name, sessions)
}

// found returns the sessions that Recoverable yields before its error, and that error. No session comes after it.
func found(t *testing.T, bot *Bot) (sessions []string, last error) {
	t.Helper()
	for session, err := range bot.Recoverable(t.Context(), true) {
		if last != nil || session == "" != (err != nil) {
			t.Errorf("session %q with error %v, after error %v", session, err, last)
		}
		if last = err; err == nil {
			sessions = append(sessions, session)
		}
	}
	return sessions, last
}

// Sessions on a part of the stores that is away are left out of a listing, which names the part. They are found again
// when the part is back.
func TestPartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gone := newWorld(), make(map[string]bool)
		d := steps(nil)
		for _, id := range []string{"a", "b", "c", "d"} {
			r := snapshot.Run{
				Key: snapshot.Key{Orchestrator: d.Name, Session: id}, ID: "run " + id, Attempt: 1,
				Status: snapshot.Running, Fence: lock.Fence{Epoch: 1, Nonce: id}, Payload: []byte(`{}`),
			}
			if _, err := w.Snapshots.Begin(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		w.Snapshots, w.Checkpoints = awayRuns{w.Snapshots, gone}, awaySessions{w.Checkpoints, gone}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{DeadAfter: -1}})
		want := func(away error, sessions ...string) {
			t.Helper()
			got, err := found(t, bot)
			if !slices.Equal(got, sessions) || !errors.Is(err, away) {
				t.Errorf("found %q, %v; want %q, %v", got, err, sessions, away)
			}
			if err != nil && (strings.Count(err.Error(), errNode.Error()) != 1 || strings.Contains(err.Error(), `"b"`)) {
				t.Errorf("the error is %v", err) // it says the same, whichever session is first
			}
			var runs []string
			for r, err := range bot.Runs(t.Context()) {
				if err != nil && (!errors.Is(err, errNode) || !gone[r.Session]) {
					t.Errorf("run of %q: %v", r.Session, err)
				}
				runs = append(runs, r.Session)
			}
			b, err := bot.Backlog(t.Context())
			if len(runs) != 4 || b.Running != len(sessions) || b.Damaged != 0 || !errors.Is(err, away) {
				t.Errorf("runs of %q, backlog %+v, %v", runs, b, err)
			}
		}
		want(nil, "a", "b", "c", "d")
		gone["b"], gone["d"] = true, true
		for range 3 {
			want(errNode, "a", "c")
			time.Sleep(time.Minute)
		}
		clear(gone)
		want(nil, "a", "b", "c", "d")
	})
}

// A process dies while a part of the stores is away. Its sessions there are found when the part is back, and not only
// by the next pass over all sessions.
func TestStoppedWhilePartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store, gone := newWorld(), new(checkpoint.Memory), make(map[string]bool)
		d := steps(nil)
		for _, id := range []string{"a", "b"} {
			k := checkpoint.Key{Orchestrator: d.Name, Session: id}
			c, err := store.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "other", Nonce: id, TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			r := snapshot.Run{
				Key: k, ID: "run " + id, Attempt: 1, Status: snapshot.Running, Fence: c.Fence,
				Payload: []byte(`{}`),
			}
			if _, err := w.Snapshots.Begin(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		w.Snapshots, w.Checkpoints = awayRuns{w.Snapshots, gone}, store
		bot := w.Start(t, d, Options{})
		pass := func() (sessions []string) {
			for session, err := range bot.Recoverable(t.Context(), false) {
				if err == nil {
					sessions = append(sessions, session)
				}
			}
			time.Sleep(time.Second)
			return sessions
		}
		for range 10 {
			if _, err := store.Beat(t.Context(), "other"); err != nil {
				t.Fatal(err)
			}
			if got := pass(); len(got) > 0 {
				t.Fatalf("found %q of a process that is alive", got)
			}
		}
		gone["b"] = true
		var got []string
		for range 20 {
			if got = pass(); len(got) > 0 {
				break
			}
		}
		if !slices.Equal(got, []string{"a"}) {
			t.Fatalf("found %q of a process that has stopped", got)
		}
		clear(gone)
		if got = pass(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("found %q when the part is back", got)
		}
		if got = pass(); len(got) > 0 {
			t.Errorf("found %q again", got)
		}
	})
}

// A person answers while some runs cannot be read. The other runs go on, and these do when they can be read again.
func TestAnswerWhilePartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, effects := awayRuns{new(snapshot.Memory), make(map[string]bool)}, new(ledger.Memory)
		d := single(func(context.Context, *Turn) error { return nil })
		bot := worldOf(new(checkpoint.Memory), runs).Start(t, d,
			Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
		for _, session := range []string{"a", "b", "c", "keyless"} {
			suspend(t, runs.Store, effects, d.Name, session, doubting("effect "+session))
		}
		if got, err := found(t, bot); len(got) > 0 || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		runs.gone["a"] = true
		for _, session := range []string{"a", "b", "c"} {
			answer(t, effects, "effect "+session)
		}
		for range 8 { // longer than a look at all suspended runs is away
			if got, err := found(t, bot); !slices.Equal(got, []string{"b", "c"}) || !errors.Is(err, errNode) {
				t.Errorf("%q, %v", got, err)
			}
			time.Sleep(time.Minute)
		}
		change(t, runs.Store, d.Name, "b", snapshot.Parked)
		change(t, runs.Store, d.Name, "c", snapshot.Parked)
		clear(runs.gone)
		for range 2 {
			if got, err := found(t, bot); !slices.Equal(got, []string{"a"}) || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}
