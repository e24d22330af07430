package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Abandon and Delete end their own target, and nothing else.

// Once Delete has returned, a former owner that is about to begin a turn is refused: no function of the bot runs.
func TestDeleteBarsALateBegin(t *testing.T) {
	stages(t, func(s *stage) {
		late := s.process(Options{}, func(context.Context, *Turn) error {
			s.Error("it runs in a session that is deleted")
			return nil
		})
		other := s.process(Options{}, nil)
		stopped := late.stopBefore("Begin")
		a := late.begin(Input{Text: "a", RequestID: "r"})
		stopped.reached()
		if err := other.Delete(t.Context(), scribeKey.Session); err != nil {
			s.Fatal(err)
		}
		stopped.goOn()
		a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
		wantRuns(s, other.Bot, 0)
		s.ends()
	})
}

// Delete removes its session, so there is no lease to release.
func TestDeleteGivesNothingBack(t *testing.T) {
	s := &stage{t, newWorld()}
	p := s.process(Options{}, nil)
	p.execute(Input{Text: "a"})
	if err := p.Delete(t.Context(), scribeKey.Session); err != nil || p.called("Mark") != 0 {
		t.Errorf("%v, %d Marks", err, p.called("Mark"))
	}
}

// A run settles before its Abandon takes the session. The Abandon leaves the owner alone, which works on another input.
func TestLateAbandonSparesTheNext(t *testing.T) {
	stages(t, func(s *stage) {
		old, innocent := s.stop(), s.stop()
		a := s.process(Options{}, old.stopAt(1)).begin(Input{Text: "a"})
		old.reached()
		operator, next := s.process(Options{}, nil), s.process(Options{}, innocent.stopAt(0))
		var b *pending
		operator.next("Claim", func(send func() error) error {
			old.goOn()
			a.settles()
			b = next.begin(Input{Text: "b"})
			innocent.reached()
			return send()
		})
		run := wantRuns(s, operator.Bot, 1)[0]
		if ended, err := operator.Abandon(t.Context(), scribeKey.Session, run.ID); ended || err != nil {
			s.Errorf("ended %t, %v", ended, err)
		}
		innocent.goOn()
		b.settles()
		s.ends("a", "b")
	})
}

// A run that has settled, and was not deleted, cannot be abandoned.
func TestAbandonOfSettled(t *testing.T) {
	s := &stage{t, newWorld()}
	p := s.process(Options{}, nil)
	p.from("Delete", requestLost)
	res := p.execute(Input{Text: "a"})
	operator := s.process(Options{}, nil)
	wantRuns(t, operator.Bot, 1)
	if ended, err := operator.Abandon(t.Context(), scribeKey.Session, res.RunID); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	s.ends("a")
}
