package enginetest

import (
	"context"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/turnlog"
)

type (
	// logWithout loses the entries of a phase.
	logWithout struct {
		turnlog.Log
		phase string
	}
	// logByPhase keeps one entry of each phase.
	logByPhase struct{ turnlog.Log }
	// logOnce refuses an entry that it has.
	logOnce struct{ turnlog.Log }
)

func (l logWithout) Record(ctx context.Context, e turnlog.Entry) error {
	if e.Phase == l.phase {
		return nil
	}
	return l.Log.Record(ctx, e)
}

// has reports whether a log has an entry that is alike.
func has(ctx context.Context, l turnlog.Log, e turnlog.Entry, alike func(a turnlog.Entry) bool) bool {
	all, err := l.Restore(ctx, e.Run)
	for _, a := range all {
		if err == nil && a.Phase == e.Phase && alike(a) {
			return true
		}
	}
	return false
}

func (l logByPhase) Record(ctx context.Context, e turnlog.Entry) error {
	if has(ctx, l, e, func(turnlog.Entry) bool { return true }) {
		return nil
	}
	return l.Log.Record(ctx, e)
}

func (l logOnce) Record(ctx context.Context, e turnlog.Entry) error {
	if has(ctx, l, e, func(a turnlog.Entry) bool { return a.At.Equal(e.At) }) {
		return lock.ErrHeld // a verdict
	}
	return l.Log.Record(ctx, e)
}
