package orchestrator

import (
	"context"

	"github.com/holdfast-go/holdfast/turnlog"
)

// spannedLog makes a span of each Record of a turn log.
type spannedLog struct {
	log    turnlog.Log
	silent *silence
}

// Record implements [turnlog.Log].
func (s *spannedLog) Record(ctx context.Context, e turnlog.Entry) error {
	ctx, span := s.silent.traceCall(ctx, "turnlog.Record", e.Session, e.Run)
	err := s.log.Record(ctx, e)
	endCall(span, err)
	return err
}
