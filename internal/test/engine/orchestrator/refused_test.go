package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A call that the server refuses has no effect, so its outcome is not in doubt. It is repeated, like a call without an
// answer.
func TestRefused(t *testing.T) {
	o := Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}}
	t.Run("begin", func(t *testing.T) {
		s := &stage{t, newWorld()}
		p := s.process(o, nil)
		p.next("Begin", func(func() error) error { return snapshot.ErrRefused })
		_, err := p.Execute(t.Context(), scribeKey.Session, Input{Text: "a"}, nil)
		wantErr(t, err, snapshot.ErrRefused)
		if errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Errorf("a Begin that was refused is in doubt: %v", err)
		}
		p.execute(Input{Text: "b"})
		s.ends("b")
	})
	t.Run("append, for a while", func(t *testing.T) {
		s := &stage{t, newWorld()}
		p := s.process(Options{}, nil)
		p.next("Append", func(func() error) error { return checkpoint.ErrRefused })
		p.execute(Input{Text: "a"})
		s.ends("a")
	})
	for name, unanswered := range map[string]bool{"append": false, "append, after one without an answer": true} {
		t.Run(name, func(t *testing.T) {
			lost := unanswered
			full := func(context.Context, faulttest.Call, func(context.Context) error) error {
				if lost {
					lost = false
					return errLost
				}
				return checkpoint.ErrRefused
			}
			w := worldOf(faulttest.Checkpoints(new(checkpoint.Memory), faulttest.On(full, "Append")), nil)
			_, err := w.Start(t, echo(), o).Execute(t.Context(), "s", Input{Text: "a"}, nil)
			wantErr(t, err, checkpoint.ErrRefused)
			if errors.Is(err, orchestrator.ErrIndeterminate) != unanswered {
				t.Errorf("in doubt is %v, want %v: %v", !unanswered, unanswered, err)
			}
		})
	}
}
