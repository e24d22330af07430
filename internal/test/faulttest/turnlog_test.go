package faulttest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

func TestMemoryTurnLog(t *testing.T) {
	newLog := func(*testing.T) turnlog.Lister { return new(turnlog.Memory) }
	TurnLogModel(t, newLog)
	TurnLogHistories(t, newLog, 10*Histories())
}

// Histories of entries convict a log that breaks its promises at once, or only if two calls meet.
func TestTurnLogHistoriesConvict(t *testing.T) {
	convictHistories(t, logSpec, recordEntries, map[string]func() turnlog.Lister{
		"another state in silence":   func() turnlog.Lister { return anyState{new(turnlog.Memory)} },
		"Record reads, then writes":  func() turnlog.Lister { return writesLate{new(turnlog.Memory)} },
		"Prune reads, then forgets":  func() turnlog.Lister { return forgetsLate{new(turnlog.Memory)} },
		"settled once, settled ever": func() turnlog.Lister { return opensNever{new(turnlog.Memory)} },
	})
}

type (
	anyState    struct{ *turnlog.Memory }
	writesLate  struct{ *turnlog.Memory }
	forgetsLate struct{ *turnlog.Memory }
	opensNever  struct{ *turnlog.Memory }
)

func (l anyState) Record(ctx context.Context, e turnlog.Entry) error {
	if err := l.Memory.Record(ctx, e); !errors.Is(err, turnlog.ErrChanged) {
		return err
	}
	return nil
}

// writesLate does not see what is recorded between its look and its write.
func (l writesLate) Record(ctx context.Context, e turnlog.Entry) error {
	all, err := l.Restore(ctx, e.Run)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.Phase == e.Phase && f.At.Equal(e.At) {
			return l.Memory.Record(ctx, e)
		}
	}
	runtime.Gosched()
	if err := l.Memory.Record(ctx, e); !errors.Is(err, turnlog.ErrChanged) {
		return err
	}
	return nil
}

// forgetsLate forgets a run of which it has seen that it is settled, whatever was recorded since.
func (l forgetsLate) Prune(ctx context.Context, before time.Time) (int, error) {
	open := make(map[string]bool)
	var settled []turnlog.Entry
	for s, err := range l.Turns(ctx, turnlog.Query{Open: true}) {
		if err != nil {
			return 0, err
		}
		open[s.First.Run] = true
	}
	for s, err := range l.Turns(ctx, turnlog.Query{}) {
		if err == nil && !open[s.First.Run] {
			settled = append(settled, s.First)
		}
	}
	runtime.Gosched()
	for _, e := range settled {
		e.Phase, e.At = turnlog.Settled, before.Add(-time.Millisecond/2).Truncate(time.Millisecond)
		if err := l.Memory.Record(ctx, e); err != nil && !errors.Is(err, turnlog.ErrChanged) {
			return 0, err
		}
	}
	return l.Memory.Prune(ctx, before)
}

// opensNever takes a Started after Settled for one before it.
func (l opensNever) Record(ctx context.Context, e turnlog.Entry) error {
	all, err := l.Restore(ctx, e.Run)
	for _, f := range all {
		if f.Phase == turnlog.Settled && e.Phase == turnlog.Started {
			e.Phase = turnlog.ToolReceived
		}
	}
	return errors.Join(err, l.Memory.Record(ctx, e))
}
