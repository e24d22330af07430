package orchestrator_test

// These scenarios convict the engine as it is; each names the patch that acquits it.

/*
import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// as makes a process leave its name in the state, as a model leaves its words: no two runs of an input are alike.
func as(name string) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, name)
		return nil
	}
}

// (enginefix-proto-1.patch) A zombie whose run was ended, begun again and settled by another goes on from its own version of
// it, not from what is kept: the next turn settles on a state that no turn has left.
func TestProtocolZombieBase(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		zombie, other := s.process(Options{}, as("zombie")), s.process(Options{}, as("other"))
		stopped := zombie.stopBefore("Append")
		b := zombie.begin(Input{Text: "b"})
		stopped.reached()
		if err := other.Abandon(t.Context(), scribeKey.Session); err != nil {
			t.Fatal(err)
		}
		a := other.execute(in)
		stopped.goOn()
		s.await(b.done)
		if res := other.execute(Input{Text: "c"}); !slices.Equal(res.State.Said[:len(a.State.Said)], a.State.Said) {
			t.Errorf("%q after %q", res.State.Said, a.State.Said)
		}
	})
}

// (enginefix-proto-2.patch) A run that has ended, and begins again under its request id before it is swept up, is an accepted input.
func TestProtocolSweptUp(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		first := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		again, other := s.process(Options{}, nil), s.process(Options{}, nil)
		begin, save := again.stopBefore("Begin"), again.stopBefore("Save")
		a := again.begin(in)
		begin.reached()
		s.takeOver()
		var late letter
		first.next("Delete", late.delay)
		first.begin(in).fails(boom)
		other.next("Adopt", func(send func() error) error {
			if err := late.send(); err != nil {
				t.Error(err)
			}
			begin.goOn()
			save.reached()
			return send()
		})
		other.execute(Input{Text: "b"})
		save.goOn()
		a.fails(orchestrator.ErrIndeterminate)
		s.ends("a", "b")
	})
}

// (enginefix-proto-3.patch) A Delete whose reply is lost must not delete the next life of the session.
func TestProtocolDeletedOnce(t *testing.T) {
	stages(t, func(s *stage) {
		p, other := s.process(Options{}, nil), s.process(Options{}, nil)
		p.execute(Input{Text: "a"})
		p.next("Remove", func(send func() error) error {
			err := send()
			other.execute(Input{Text: "b"})
			return errors.Join(errLost, err)
		})
		_ = p.Delete(t.Context(), scribeKey.Session)
		s.ends("b")
	})
}

// (enginefix-proto-2.patch) Abandon also ends a run that is suspended between its look and its Adopt.
func TestProtocolAbandonSuspended(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{}, nil)
		p.next("Adopt", func(send func() error) error {
			r := wantRuns(s, p.Bot, 1)[0]
			r.Status, r.Seq = snapshot.Suspended, r.Seq+1
			if err := s.snapshots.Save(t.Context(), r); err != nil {
				t.Error(err)
			}
			return send()
		})
		if err := p.Abandon(t.Context(), scribeKey.Session); err != nil {
			t.Error(err)
		}
		s.ends()
	})
}

// (enginefix-proto-4.patch) A Begin that comes late brings back a run that another owner has settled, under a fence that only
// the checkpoint store knows to be old. Its end is acknowledged, and proves nothing: the turn is there.
func TestProtocolFailsAfterLateBegin(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		late, other := s.process(Options{}, func(context.Context, *Turn) error { return boom }), s.process(Options{}, nil)
		stopped := late.stopBefore("Begin")
		a := late.begin(in)
		stopped.reached()
		s.takeOver()
		other.execute(in)
		stopped.goOn()
		a.fails(orchestrator.ErrIndeterminate, boom)
		s.ends("a")
	})
}
*/
