package faulttest_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
	"github.com/holdfast-go/holdfast/turnlog"
)

func pass(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
	return next(ctx)
}

// An Around that asks the store each time changes nothing.
func TestAround(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store {
		return faulttest.Checkpoints(new(checkpoint.Memory), pass)
	})
	snapshottest.Run(t, func(*testing.T) snapshot.Store {
		return faulttest.Snapshots(new(snapshot.Memory), pass)
	})
	snapshottest.RunJoiner(t, func(*testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
		turns := new(checkpoint.Memory)
		return faulttest.Joined(new(snapshot.Memory), turns, nil, pass).(snapshottest.JoiningStore), turns
	})
	snapshottest.RunEffectJoiner(t, func(*testing.T) snapshottest.Joinable {
		log := new(turnlog.Memory)
		s := faulttest.Joined(new(snapshot.Memory), new(checkpoint.Memory), log, pass)
		return snapshottest.Joinable{Runs: s.(snapshottest.CarryingStore), Effects: new(ledger.Memory), Log: log}
	})
	transcripttest.Run(t, func(*testing.T) transcript.Store {
		return faulttest.Transcripts(new(transcript.Memory), pass)
	})
	inboxtest.Run(t, func(*testing.T) inbox.Store { return faulttest.Inbox(new(inbox.Memory), pass) })
	streamtest.Run(t, func(*testing.T) stream.Store { return faulttest.Stream(new(stream.Memory), pass) })
}

// Each method of a store passes the Around, under its own name, and returns the error of the Around.
func TestAroundSeesAll(t *testing.T) {
	errDown := errors.New("down")
	var seen []string
	down := func(_ context.Context, c faulttest.Call, _ func(context.Context) error) error {
		seen = append(seen, c.Method)
		return errDown
	}
	for _, store := range []any{
		faulttest.Checkpoints(new(checkpoint.Memory), down), faulttest.Snapshots(new(snapshot.Memory), down),
		faulttest.Transcripts(new(transcript.Memory), down), faulttest.Inbox(new(inbox.Memory), down),
		faulttest.Stream(new(stream.Memory), down),
	} {
		v := reflect.ValueOf(store)
		for i := range v.NumMethod() {
			called := len(seen)
			if err := call(t, v.Method(i)); !errors.Is(err, errDown) {
				t.Errorf("%T.%s returns %v", store, v.Type().Method(i).Name, err)
			}
			want := v.Type().Method(i).Name
			switch store.(type) {
			case checkpoint.Store:
				if want == "Delete" {
					want = "Remove"
				}
			case transcript.Store:
				want = "transcript." + want
			case inbox.Store:
				want = "inbox." + want
			case stream.Store:
				want = "stream." + want
			}
			if !slices.Equal(seen[called:], []string{want}) {
				t.Errorf("%T.%s is seen as %q", store, want, seen[called:])
			}
		}
	}
}

// call calls a method with zero values, and returns its error or the last that it yields.
func call(t *testing.T, method reflect.Value) (err error) {
	t.Helper()
	args := []reflect.Value{reflect.ValueOf(t.Context())}
	for i := 1; i < method.Type().NumIn(); i++ {
		args = append(args, reflect.Zero(method.Type().In(i)))
	}
	do := method.Call
	if method.Type().IsVariadic() {
		do = method.CallSlice
	}
	results := do(args)
	last := results[len(results)-1]
	if last.Kind() == reflect.Func {
		for _, e := range last.Seq2() {
			err, _ = e.Interface().(error)
		}
		return err
	}
	err, _ = last.Interface().(error)
	return err
}

func TestFailSome(t *testing.T) {
	errDown := errors.New("down")
	s := faulttest.Checkpoints(new(checkpoint.Memory), faulttest.Fail(errDown, "Append", "Mark"))
	k := checkpoint.Key{Orchestrator: "bot", Session: "s"}
	c, err := s.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Hour})
	if err != nil || c.Fence.Nonce != "n" {
		t.Fatalf("claimed %+v, %v", c, err)
	}
	if err := s.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true}); !errors.Is(err, errDown) {
		t.Errorf("Mark returns %v", err)
	}
	if err := s.Delete(t.Context(), c.Lease); err != nil {
		t.Errorf("Delete returns %v", err)
	}
}
