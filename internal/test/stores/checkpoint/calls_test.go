package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	none    checkpoint.AppendOptions
	owes    = checkpoint.AppendOptions{Owes: true}
	release = checkpoint.Marks{Release: true}
)

func key(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: "bot", Session: session} }

// stranger is a lease that no store has granted.
var stranger = checkpoint.Lease{Key: key("a"), Fence: lock.Fence{Epoch: 1, Nonce: "n"}}

var nonces atomic.Int64

func request() checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "test", Nonce: fmt.Sprint("nonce-", nonces.Add(1)), TTL: time.Hour}
}

func turn(n int) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: n, RunID: fmt.Sprint("run-", n), RequestID: fmt.Sprint("request-", n), State: json.RawMessage(`{"n":1}`),
	}
}

// take claims a session, also from its owner.
func take(
	ctx context.Context, s checkpoint.Store, session string, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	for {
		c, err := s.Claim(ctx, key(session), r)
		held, ok := errors.AsType[*checkpoint.HeldError](err)
		if !ok {
			return c, err
		}
		r.From = held.Fence
	}
}

// claim takes a session for an hour.
func claim(t testing.TB, s checkpoint.Store, session string) checkpoint.Claimed {
	t.Helper()
	return claimFor(t, s, session, time.Hour)
}

func claimFor(t testing.TB, s checkpoint.Store, session string, ttl time.Duration) checkpoint.Claimed {
	t.Helper()
	r := request()
	r.TTL = ttl
	return must[checkpoint.Claimed](t)(take(t.Context(), s, session, r))
}

// settle appends turns.
func settle(t testing.TB, s checkpoint.Store, l checkpoint.Lease, o checkpoint.AppendOptions, turns ...int) {
	t.Helper()
	for _, n := range turns {
		check(t, s.Append(t.Context(), l, turn(n), o))
	}
}

func mark(t testing.TB, s checkpoint.Store, l checkpoint.Lease, m checkpoint.Marks) {
	t.Helper()
	check(t, s.Mark(t.Context(), l, m))
}

func renew(t testing.TB, s checkpoint.Store, d time.Duration, leases ...checkpoint.Lease) (lost []checkpoint.Lease) {
	t.Helper()
	return must[[]checkpoint.Lease](t)(s.Renew(t.Context(), d, leases))
}

func deleteAll(t testing.TB, s checkpoint.Store, leases ...checkpoint.Lease) {
	t.Helper()
	for _, l := range leases {
		check(t, s.Delete(t.Context(), l))
	}
}

// list returns the sessions. With owing, it returns only the sessions that owe a reply.
func list(t testing.TB, s checkpoint.Store, owing bool) (sessions []string) {
	t.Helper()
	for id, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
		check(t, err)
		sessions = append(sessions, id)
	}
	return sessions
}

// kept returns the turns of session a, the newest first.
func kept(t testing.TB, s checkpoint.Store) (turns []int) {
	t.Helper()
	for cp, err := range s.Turns(t.Context(), key("a"), checkpoint.Newest) {
		check(t, err)
		if want := turn(cp.Turn).RunID; cp.RunID != want {
			t.Errorf("turn %d is of %q, want %q", cp.Turn, cp.RunID, want)
		}
		turns = append(turns, cp.Turn)
	}
	return turns
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}

// calls are the methods of a store. The lease owns a session without a turn, if it owns one.
var calls = map[string]func(ctx context.Context, s store, l checkpoint.Lease) error{
	"Claim": func(ctx context.Context, s store, l checkpoint.Lease) error {
		r := request()
		r.From = l.Fence
		_, err := s.Claim(ctx, l.Key, r)
		return err
	},
	"Begin": func(ctx context.Context, s store, _ checkpoint.Lease) error { // a claim of a new session
		_, err := s.Claim(ctx, key("new"), request())
		return err
	},
	"Renew": func(ctx context.Context, s store, l checkpoint.Lease) error {
		lost, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
		if err == nil && len(lost) > 0 {
			err = errors.New("the lease is lost")
		}
		return err
	},
	"Held": func(ctx context.Context, s store, l checkpoint.Lease) error {
		_, err := s.Held(ctx, l.Orchestrator, []string{l.Session})
		return err
	},
	"Head": func(ctx context.Context, s store, l checkpoint.Lease) error { _, err := s.Head(ctx, l.Key); return err },
	"Load": func(ctx context.Context, s store, l checkpoint.Lease) error {
		_, err := checkpoint.Load(ctx, s, l.Key, 0)
		return err
	},
	"Newest": func(ctx context.Context, s store, l checkpoint.Lease) error {
		_, err := checkpoint.Load(ctx, s, l.Key, checkpoint.Newest)
		return err
	},
	"Append": func(ctx context.Context, s store, l checkpoint.Lease) error { return s.Append(ctx, l, turn(0), none) },
	"Mark": func(ctx context.Context, s store, l checkpoint.Lease) error {
		return s.Mark(ctx, l, checkpoint.Marks{Summarized: 1, Release: true})
	},
	"Delete": func(ctx context.Context, s store, l checkpoint.Lease) error { return s.Delete(ctx, l) },
	"Sweep":  func(ctx context.Context, s store, _ checkpoint.Lease) error { _, err := s.Sweep(ctx, 0); return err },
	"Raise": func(ctx context.Context, s store, _ checkpoint.Lease) error {
		_, err := s.Raise(ctx, time.Time{})
		return err
	},
}

// try makes the named calls in their order, and returns their errors.
func try(t *testing.T, s store, l checkpoint.Lease, names string) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	for _, name := range strings.Fields(names) {
		errs[name] = calls[name](t.Context(), s, l)
	}
	return errs
}

// verdict reports whether an error is the verdict of a store that could look.
func verdict(err error) bool {
	for _, verdict := range []error{
		lock.ErrHeld, lock.ErrFenced, checkpoint.ErrConflict, checkpoint.ErrInvalid, checkpoint.ErrSchema,
		checkpoint.ErrNotFound,
	} {
		if errors.Is(err, verdict) {
			return true
		}
	}
	return false
}

// noisy is a turn whose state compresses badly, so that it needs another page.
func noisy(n int) checkpoint.Checkpoint {
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte('a' + rand.IntN(26))
	}
	cp := turn(n)
	cp.State = json.RawMessage(`"` + string(noise) + `"`)
	return cp
}
