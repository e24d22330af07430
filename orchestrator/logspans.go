package orchestrator

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/turnlog"
)

// spannedLog makes a span of each Record of a turn log. What goes wrong in the log is an error that says only that.
type spannedLog struct {
	log    turnlog.Log
	silent *silence
}

// Record implements [turnlog.Log].
func (s *spannedLog) Record(ctx context.Context, e turnlog.Entry) error {
	ctx, span := s.silent.traceCall(ctx, "turnlog.Record", e.Session, e.Run)
	err := protect(func() error { return logtext.Shield(s.log.Record(ctx, e)) })
	if panicked(err) {
		err = logtext.Private(err)
	}
	endCall(span, err)
	return err
}
