package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// as makes a process write its name into the state, as a model writes its words: no two runs of an input are alike.
func as(name string) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, name)
		return nil
	}
}

// A zombie's run was ended, begun again and settled by another owner. The zombie goes on from its own version, and not
// from the stored one. Then the next turn settles on a state that no turn has left.
func TestProtocolZombieBase(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		zombie, other := s.process(Options{}, as("zombie")), s.process(Options{}, as("other"))
		stopped := zombie.stopBefore("Append")
		b := zombie.begin(Input{Text: "b"})
		stopped.reached()
		if err := abandon(t, other.Bot, scribeKey.Session); err != nil {
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

// A run has ended. Before it is deleted, a Begin of its request arrives from a late owner. The Begin is refused, and
// the owner that deletes the run goes on.
func TestProtocolSweptUp(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		first := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		again, other := s.process(Options{}, nil), s.process(Options{}, nil)
		begin := again.stopBefore("Begin")
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
			a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
			return send()
		})
		other.execute(Input{Text: "b"})
		s.ends("b")
	})
}

// A Delete whose reply is lost must not delete the next life of the session.
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

// Abandon also ends a run that is suspended between Abandon's read and its Adopt.
func TestProtocolAbandonSuspended(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{}, nil)
		p.next("Adopt", func(send func() error) error {
			r := wantRuns(s, p.Bot, 1)[0]
			r.Status, r.Seq = snapshot.Suspended, r.Seq+1
			if err := s.Snapshots.Save(t.Context(), r); err != nil {
				t.Error(err)
			}
			return send()
		})
		if err := abandon(t, p.Bot, scribeKey.Session); err != nil {
			t.Error(err)
		}
		s.ends()
	})
}

// A late Begin does not bring back a run that another owner has settled. It fails no turn either: the turn is there.
func TestProtocolFailsAfterLateBegin(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		late, other := s.process(Options{}, func(context.Context, *Turn) error { return boom }), s.process(Options{},
			nil)
		stopped := late.stopBefore("Begin")
		a := late.begin(in)
		stopped.reached()
		s.takeOver()
		other.execute(in)
		stopped.goOn()
		a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
		s.ends("a")
	})
}

// A Begin gets no answer, and its caller sends the request again. That turn fails, and the caller is told. Then the
// first Begin arrives. A drain must not settle a turn that was told as failed.
func TestProtocolToldThenSettled(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		var late letter
		p := s.process(Options{}, nil)
		p.next("Begin", late.delay)
		p.begin(in).fails(orchestrator.ErrIndeterminate, errLost)
		again := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		again.begin(in).fails(boom)
		wantErr(s, late.send(), lock.ErrFenced)
		s.ends()
	})
}

// The same with a turn that settles and is pruned: the late Begin must not settle and deliver one request twice.
func TestProtocolPrunedThenSettled(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		var late letter
		d := new(desk)
		p := s.at(d, Options{KeepSnapshots: 1})
		p.next("Begin", late.delay)
		p.begin(in).fails(orchestrator.ErrIndeterminate, errLost)
		p.execute(in)
		p.execute(Input{Text: "b"})
		wantErr(s, late.send(), lock.ErrFenced)
		p.recovers("cleaned")
		if got := d.got(); !slices.Equal(got, []int{0, 1}) {
			s.Errorf("delivered %v", got)
		}
	})
}

// A run that failed, and was not deleted, begins again when its request comes again.
func TestProtocolBeginsAgain(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		p := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		p.from("Delete", requestLost)
		p.begin(in).fails(boom)
		if res := s.process(Options{}, nil).execute(in); res.Replayed {
			s.Errorf("%+v", res)
		}
		s.ends("a")
	})
}

// A Delete that arrives late spares the turns of the session's next life.
func TestProtocolLateDelete(t *testing.T) {
	stages(t, func(s *stage) {
		var late letter
		p := s.process(Options{}, nil)
		p.execute(Input{Text: "a"})
		p.next("Remove", late.delay)
		if err := p.Delete(t.Context(), scribeKey.Session); err != nil {
			s.Fatal(err)
		}
		for _, text := range []string{"b", "c", "d"} {
			p.execute(Input{Text: text})
		}
		wantErr(s, late.send(), lock.ErrFenced)
		s.ends("b", "c", "d")
	})
}

// A Delete without an answer is repeated. If another owner has come since, the caller cannot know which Delete it was.
func TestProtocolDeleteUnknown(t *testing.T) {
	stages(t, func(s *stage) {
		p, other := s.process(Options{}, nil), s.process(Options{}, nil)
		p.execute(Input{Text: "a"})
		p.next("Remove", func(send func() error) error {
			err := send()
			other.execute(Input{Text: "b"})
			return errors.Join(errLost, err)
		})
		wantErr(s, p.Delete(t.Context(), scribeKey.Session), orchestrator.ErrIndeterminate, lock.ErrFenced)
		s.ends("b")
	})
}

// The claim by which an Abandon takes the session arrives late. It takes nothing from the owner of another turn.
func TestProtocolLateSteal(t *testing.T) {
	stages(t, func(s *stage) {
		old, innocent := s.stop(), s.stop()
		p := s.process(Options{}, old.stopAt(1))
		a := p.begin(Input{Text: "a"})
		old.reached()
		var late letter
		pass := func(send func() error) error { return send() }
		operator := s.process(Options{}, nil)
		operator.next("Claim", pass, late.delay, pass)
		run := wantRuns(s, operator.Bot, 1)[0]
		if ended, err := operator.Abandon(t.Context(), scribeKey.Session, run.ID); !ended || err != nil {
			s.Fatal(ended, err)
		}
		old.goOn()
		a.fails(orchestrator.ErrIndeterminate)
		b := s.process(Options{}, innocent.stopAt(0)).begin(Input{Text: "b"})
		innocent.reached()
		wantErr(s, late.send(), lock.ErrHeld)
		innocent.goOn()
		b.settles()
		p.execute(Input{Text: "c"}) // the session is free
		s.ends("b", "c")
	})
}

// A late "stop" does not end the next turn.
func TestProtocolLateStop(t *testing.T) {
	stages(t, func(s *stage) {
		p, operator := s.process(Options{}, nil), s.process(Options{}, nil)
		first := p.execute(Input{Text: "a"})
		there := s.stop()
		b := s.process(Options{}, there.stopAt(0)).begin(Input{Text: "b"})
		there.reached()
		if ended, err := operator.Abandon(t.Context(), scribeKey.Session, first.RunID); ended || err != nil {
			s.Errorf("ended %t, %v", ended, err)
		}
		there.goOn()
		b.settles()
		s.ends("a", "b")
	})
}

// A Begin gets no answer. Its request comes again and fails before it begins. Then the first Begin arrives, and begins
// nothing: the failure was told. If another run is in flight meanwhile, the result is the same.
func TestProtocolFailsBeforeItBegins(t *testing.T) {
	for name, other := range map[string]bool{"nothing in flight": false, "another in flight": true} {
		t.Run(name, func(t *testing.T) {
			stages(t, func(s *stage) {
				boom := errors.New("boom")
				in := Input{Text: "a", RequestID: "r"}
				healthy, failing := scribe(nil), scribe(nil)
				failing.Begin = func(context.Context, *Turn) error { return boom }
				if other {
					s.crash(Input{Text: "other"})
				}
				p := s.processOf(healthy, Options{OnInterrupted: orchestrator.Reject})
				var late letter
				p.next("Begin", late.delay)
				p.begin(in).fails(orchestrator.ErrIndeterminate)
				s.processOf(failing, Options{}).begin(in).fails(boom)
				if other {
					s.process(Options{}, nil).recovers("settled")
				}
				wantErr(t, late.send(), lock.ErrFenced)
				wantRuns(s, p.Bot, 0)
			})
		})
	}
}

// A caller loses its session before it begins, and cannot bar the Begin of an earlier call with the same request id. So
// it is not told that nothing was begun.
func TestProtocolLostBeforeItBegins(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		p := s.process(Options{}, nil)
		var late letter
		p.next("Begin", late.delay)
		p.begin(in).fails(orchestrator.ErrIndeterminate)
		slow := scribe(nil)
		slow.Begin = func(ctx context.Context, _ *Turn) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		again := s.processOf(slow, Options{Limits: orchestrator.Limits{LeaseTTL: 200 * time.Millisecond}})
		again.from("Renew", requestLost)
		again.begin(in).fails(orchestrator.ErrIndeterminate)
		s.takeOver()
		wantErr(t, late.send(), nil)
		s.process(Options{}, nil).recovers("settled")
		s.ends("a")
	})
}

// A Begin finds another run, and its caller is refused. When that run is over, a copy of the Begin arrives and begins
// nothing.
func TestProtocolCopyOfRefusedBegin(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		zombie := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		save := zombie.stopBefore("Save")
		a := zombie.begin(Input{Text: "a"})
		save.reached()
		s.takeOver()
		p := s.process(Options{OnInterrupted: orchestrator.Reject}, nil)
		var copied letter
		p.next("Begin", copied.double)
		p.begin(Input{Text: "b", RequestID: "r"}).fails(orchestrator.ErrInterrupted)
		save.goOn()
		s.await(a.done)
		wantErr(t, copied.send(), lock.ErrFenced)
		wantRuns(s, p.Bot, 0)
		s.ends()
	})
}

// A caller leaves when an earlier run is finished and its own is about to begin. A copy of the Begin that found the
// earlier run begins nothing.
func TestProtocolCopyOfBeginThatWaited(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{Limits: orchestrator.Limits{SettleTimeout: time.Second}}, nil)
		var copied letter
		p.next("Begin", copied.double)
		p.next("Claim", nil)
		p.from("Claim", requestLost)
		p.begin(Input{Text: "b", RequestID: "r"}).fails(errLost)
		wantErr(t, copied.send(), lock.ErrFenced)
		wantRuns(s, p.Bot, 0)
		s.ends("a")
	})
}
