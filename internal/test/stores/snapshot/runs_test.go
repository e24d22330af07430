package snapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func key(session string) snapshot.Key { return snapshot.Key{Orchestrator: "bot", Session: session} }

func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprint("nonce-", epoch)}
}

// run returns a run of epoch 1 that is ready to begin.
func run(session string) snapshot.Run { return runAs(session, "run-of-"+session, 1) }

func runAs(session, id string, epoch int64) snapshot.Run {
	return snapshot.Run{
		Key: key(session), ID: id, Attempt: 1, Status: snapshot.Running, Fence: fence(epoch),
		Payload: json.RawMessage(`{"step":0}`),
	}
}

// long returns a run like run, with a payload of some KiB.
func long(session string) snapshot.Run {
	r := run(session)
	r.Payload = json.RawMessage(`{"text":"` + strings.Repeat("Where is my order? ", 200) + `"}`)
	return r
}

// next returns the next save of the owner.
func next(r snapshot.Run) snapshot.Run { return step(r, r.Seq+1) }

func step(r snapshot.Run, seq int64) snapshot.Run {
	r.Seq, r.Payload, r.Parts = seq, fmt.Appendf(nil, `{"step":%d}`, seq), nil
	return r
}

// adding returns the next save of the owner, which only adds a part.
func adding(r snapshot.Run, name string) snapshot.Run { return adds(r, r.Seq+1, parts(name, r.Seq+1)) }

func adds(r snapshot.Run, seq int64, parts map[string]json.RawMessage) snapshot.Run {
	r.Seq, r.Payload, r.Parts = seq, nil, parts
	return r
}

func parts(name string, n int64) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: fmt.Appendf(nil, `{"part":%d}`, n)}
}

// begin begins r, and returns it.
func begin(tb testing.TB, s snapshot.Store, r snapshot.Run) snapshot.Run {
	tb.Helper()
	found, err := s.Begin(tb.Context(), r)
	check(tb, err)
	if found != nil {
		tb.Fatalf("Begin of %s finds %s", r.ID, found.ID)
	}
	return r
}

// take makes an epoch that of a run's owner.
func take(ctx context.Context, s snapshot.Store, session string, epoch int64) error {
	_, err := s.Adopt(ctx, key(session), fence(epoch), 1<<20)
	return err
}

func remove(ctx context.Context, s snapshot.Store, r snapshot.Run) error {
	return s.Delete(ctx, r.Key, r.ID, r.Fence)
}

// list returns the runs of a session, or of all sessions, up to the first error.
func list(ctx context.Context, s snapshot.Store, session string) (runs []snapshot.Run, err error) {
	for r, err := range s.Runs(ctx, snapshot.Query{Key: key(session)}) {
		if err != nil {
			return runs, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// listed returns the ids of the runs of a session, or of all sessions.
func listed(tb testing.TB, s snapshot.Store, session string) (ids []string) {
	tb.Helper()
	runs, err := list(tb.Context(), s, session)
	check(tb, err)
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// inFlight describes the session's run without the times, which the store sets.
func inFlight(tb testing.TB, s snapshot.Store, session string) string {
	tb.Helper()
	runs, err := list(tb.Context(), s, session)
	check(tb, err)
	if len(runs) == 0 {
		return "none"
	}
	return timeless(runs[0])
}

func timeless(r snapshot.Run) string {
	payload := strings.ReplaceAll(string(r.Payload), " ", "") // PostgreSQL adds some
	r.Age, r.StartedAt, r.SavedAt, r.Payload = 0, time.Time{}, time.Time{}, nil
	return fmt.Sprintf("%+v %s", r, payload)
}

// writes makes every call that writes a run once, and returns the errors.
func writes(ctx context.Context, s snapshot.Store) map[string]error {
	r := run("a")
	_, begun := s.Begin(ctx, r)
	return map[string]error{
		"Begin": begun, "Adopt": take(ctx, s, "a", 1), "Save": s.Save(ctx, next(r)), "Delete": remove(ctx, s, r),
	}
}

// calls is writes with the calls that read.
func calls(ctx context.Context, s snapshot.Store) map[string]error {
	errs := writes(ctx, s)
	_, errs["Runs"] = list(ctx, s, "")
	_, errs["Runs of a session"] = list(ctx, s, "a")
	return errs
}

// wantAll fails unless every error is target and says so.
func wantAll(tb testing.TB, errs map[string]error, target error, says string) {
	tb.Helper()
	for call, err := range errs {
		if !errors.Is(err, target) || err != nil && !strings.Contains(err.Error(), says) {
			tb.Errorf("%s: got %v, want %v that says %q", call, err, target, says)
		}
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func want(tb testing.TB, err, target error) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Errorf("got %v, want %v", err, target)
	}
}
