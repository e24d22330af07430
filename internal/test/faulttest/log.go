package faulttest

import (
	"context"

	"github.com/holdfast-go/holdfast/turnlog"
)

// TurnLog returns a turn log whose Record goes through around.
func TurnLog(l turnlog.Log, around Around) turnlog.Log { return &phases{l, around} }

type phases struct {
	turnlog.Log
	around Around
}

func (s *phases) Record(ctx context.Context, e turnlog.Entry) error {
	c := Call{Method: "RecordPhase", Session: e.Session, Run: e.Run, Phase: e.Phase}
	return s.around(ctx, c, func(ctx context.Context) error { return s.Log.Record(ctx, e) })
}
