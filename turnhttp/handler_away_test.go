package turnhttp_test

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// errAway is the error of a store that is away. Its text must not go out.
var errAway = fmt.Errorf("%s: %w", secret, checkpoint.ErrRefused)

// A downCheckpoints, and the others, fail each call.
type (
	downCheckpoints struct {
		checkpoint.Store
		err error
	}
	downSnapshots struct {
		snapshot.Store
		err error
	}
	downLedger struct {
		ledger.Ledger
		err error
	}
	downInbox struct {
		inbox.Store
		err error
	}
	downStream struct {
		stream.Store
		err error
	}
)

func (d downCheckpoints) Claim(context.Context, checkpoint.Key, checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return checkpoint.Claimed{}, d.err
}

func (d downCheckpoints) Turns(context.Context, checkpoint.Key, int) iter.Seq2[checkpoint.Checkpoint, error] {
	return failing(checkpoint.Checkpoint{}, d.err)
}

func (d downSnapshots) Runs(context.Context, snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return failing(snapshot.Run{}, d.err)
}

func (d downLedger) Effects(context.Context, ledger.Query) iter.Seq2[ledger.Effect, error] {
	return failing(ledger.Effect{}, d.err)
}

func (d downInbox) Items(context.Context, inbox.Key, inbox.Kind) iter.Seq2[inbox.Item, error] {
	return failing(inbox.Item{}, d.err)
}

func (d downInbox) Item(context.Context, inbox.Key, inbox.Kind, string) (inbox.Item, error) {
	return inbox.Item{}, d.err
}

func (d downInbox) Remove(context.Context, inbox.Key, inbox.Kind, ...string) error { return d.err }

func failing[T any](v T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(v, err) }
}

func (d downStream) Read(context.Context, stream.Key, int64) iter.Seq2[stream.Chunk, error] {
	return failing(stream.Chunk{}, d.err)
}

func (d downStream) Last(context.Context, stream.Key) (int64, string, stream.Status, error) {
	return 0, "", "", d.err
}

func down(f *fixture, err error) {
	f.w.events = downStream{f.w.events, err}
	f.w.checkpoints, f.w.snapshots = downCheckpoints{f.w.checkpoints, err}, downSnapshots{f.w.snapshots, err}
	f.w.effects, f.w.answers = downLedger{f.w.effects, err}, downInbox{f.w.answers, err}
	f.o.Inbox, f.o.Ledger = f.w.answers, f.w.effects
}

// A muteCheckpoints loses the reply of Delete.
type muteCheckpoints struct{ checkpoint.Store }

func (muteCheckpoints) Delete(context.Context, checkpoint.Lease) error { return errors.New(secret) }

// A fullError is SQLite's error of a disk without space.
type fullError struct{}

func (fullError) Error() string { return secret }

func (fullError) Code() int { return 13 }

// awayCases are what a route says of stores that are away, full, slow or broken.
func awayCases(name string, q request) (all []handlerCase) {
	add := func(what string, err error, status int, kind string) {
		all = append(all, handlerCase{name + " with stores " + what, func(f *fixture) {
			if name == "answer" || name == "questions" {
				asking(f)
				f.h = nil
			}
			if name == "branch" {
				f.o.Chat = talk{err: err}
			}
			down(f, err)
		}, q, status, kind, ""})
	}
	add("that are away", errAway, 503, "unavailable")
	add("that are full", fullError{}, 507, "storage-full")
	switch name {
	case "turn": // other cases have the rest
	case "delete":
		all = append(all, handlerCase{"delete without a reply", func(f *fixture) {
			f.w.checkpoints = muteCheckpoints{f.w.checkpoints}
		}, q, 504, "unknown-outcome", ""})
		add("that lose the lease", lock.ErrFenced, 500, "internal")
	case "effects", "effect":
		add("that are slow", context.DeadlineExceeded, 504, "timeout")
		add("that are broken", errors.New(secret), 503, "unavailable")
	default:
		add("that are slow", context.DeadlineExceeded, 504, "timeout")
		add("that are broken", errors.New(secret), 500, "internal")
	}
	if name == "delete" || name == "abandon" {
		add("in conflict", checkpoint.ErrConflict, 409, "conflict")
	}
	return all
}
