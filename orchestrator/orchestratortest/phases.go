package orchestratortest

import (
	"context"

	"github.com/holdfast-go/holdfast/turnlog"
)

// phases is a turn log as a process sees it.
type phases struct {
	log  turnlog.Log
	life *life
}

// Record implements [turnlog.Log].
func (s *phases) Record(ctx context.Context, e turnlog.Entry) error {
	return s.life.do(ctx, "turnlog.Record", func(ctx context.Context) error {
		s.life.recorded(e.At)
		return s.log.Record(ctx, e)
	})
}

// Restore implements [turnlog.Log]. No bot calls it.
func (s *phases) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	return s.log.Restore(ctx, run)
}
