package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A caller who leaves before anything has run costs no attempt.
func TestLeavingEarlyIsNoAttempt(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		p := s.process(Options{}, nil)
		before := wantRuns(s, p.Bot, 1)[0].Attempt
		ctx, cancel := context.WithCancel(t.Context())
		p.next("Adopt", func(send func() error) error { defer cancel(); return send() })
		_, err := p.Execute(ctx, scribeKey.Session, in, nil)
		wantErr(s, err, context.Canceled, orchestrator.ErrIndeterminate)
		if run := wantRuns(s, p.Bot, 1)[0]; run.Attempt != before || run.Status != snapshot.Waiting {
			s.Errorf("attempt %d, then %d, %s", before, run.Attempt, run.Status)
		}
		p.recovers("settled")
		s.ends("a")
	})
}

// A model may say text that no store accepts. The engine cleans the text before anything else.
func TestReasonsAreCleaned(t *testing.T) {
	const bad = "a\x00b\xff"
	backends(t, func(t *testing.T, w world) {
		d := Def{
			Name: "noisy", Iterate: true,
			Route: func(context.Context, *Turn) (Next, error) {
				n := orchestrator.To("work")
				n.Reason = bad
				return n, nil
			},
			Intents: Intents{"work": {Run: func(_ context.Context, t *Turn) error {
				t.State.A = t.Feedback
				return nil
			}}},
			Evaluate: func(_ context.Context, t *Turn) (Next, error) {
				t.Feedback = bad
				if t.Iteration == 0 {
					return Next{}, nil
				}
				n := orchestrator.End
				n.Reason = bad
				return n, nil
			},
		}
		res := execute(t, w.Start(t, d, Options{}), Input{Text: "a", RequestID: "r"})
		if res.State.A != "a?b?" || res.Steps[0].Next.Reason != "a?b?" {
			t.Errorf("%q, %+v", res.State.A, res.Steps)
		}
	})
}

// An owner that loses its session while it begins a run again does not begin the run.
func TestRenewedFenceIsLost(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		first := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		first.from("Delete", requestLost)
		first.begin(in).fails(boom)
		p := s.process(Options{}, nil)
		pass := func(send func() error) error { return send() }
		p.next("Claim", pass, func(send func() error) error {
			c, err := seize(t.Context(), s.Checkpoints, scribeKey, "another", time.Minute)
			if err == nil {
				err = s.Checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
			}
			return errors.Join(err, send())
		})
		e := p.begin(in)
		s.await(e.done)
		wantErr(s, e.err, lock.ErrFenced)
		s.ends()
	})
}
