package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Requests that come twice, and requests that come in order.

var policies = map[string]orchestrator.OnInterrupted{
	"resume first": orchestrator.ResumeFirst, "reject": orchestrator.Reject, "abandon first": orchestrator.AbandonFirst,
}

// Convicts: a repeat of the run in flight that counts as another input. The run is finished first, or rejected, or
// abandoned, and the request id settles twice, or never.
func TestProtocolRepeat(t *testing.T) {
	in := Input{Text: "a", RequestID: "r"}
	for name, policy := range policies {
		t.Run("after a crash, "+name, func(t *testing.T) {
			stages(t, func(s *stage) {
				s.crash(in)
				p := s.process(Options{OnInterrupted: policy}, func(_ context.Context, t *Turn) error {
					if t.Iteration == 0 {
						s.Error("what was saved is done again")
					}
					return nil
				})
				run := wantRuns(s, p.Bot, 1)[0]
				if res := p.execute(in); res.RunID != run.ID || res.Resumed != nil || res.ResumeErr != nil ||
					res.Replayed {
					s.Errorf("%+v", res)
				}
				s.ends("a")
			})
		})
		t.Run("of a zombie, "+name, func(t *testing.T) {
			stages(t, func(s *stage) {
				old := s.stop()
				zombie, other := s.process(Options{}, old.stopAt(1)), s.process(Options{OnInterrupted: policy}, nil)
				a := zombie.begin(in)
				old.reached()
				s.takeOver()
				again := other.execute(in)
				old.goOn()
				if res := a.settles(); res.RunID != again.RunID || res.Turn != again.Turn {
					s.Errorf("%+v and %+v", res, again)
				}
				s.ends("a")
			})
		})
		t.Run("of a live one, "+name, func(t *testing.T) {
			stages(t, func(s *stage) {
				there := s.stop()
				first, other := s.process(Options{}, there.stopAt(1)), s.process(Options{OnInterrupted: policy}, nil)
				a := first.begin(in)
				there.reached()
				here, elsewhere := first.begin(in), other.begin(in)
				there.goOn()
				// In its own process the second call joins the first, unless that has returned.
				if res := a.settles(); here.settles().RunID != res.RunID || !elsewhere.settles().Replayed ||
					elsewhere.res.RunID != res.RunID {
					s.Errorf("%+v, %+v and %+v", res, here.res, elsewhere.res)
				}
				s.ends("a")
			})
		})
	}
}

// Convicts: a refused repeat that is told as failure. Its caller is gone before the turn is made, but the run of the
// first request is in flight.
func TestProtocolRepeatCancelled(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		ctx, cancel := context.WithCancel(t.Context())
		history := func(context.Context, string) ([]message.Message, error) { cancel(); return nil, nil }
		_, err := s.process(Options{History: history}, nil).Execute(ctx, scribeKey.Session, in, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
		s.process(Options{}, nil).recovers("settled")
		s.ends("a")
	})
}

// Convicts: a RunID that does not hash the input. Another input with the same request id takes over the run of the
// first, or gets its reply.
func TestProtocolRequestReused(t *testing.T) {
	in, other := Input{Text: "a", RequestID: "r"}, Input{Text: "b", RequestID: "r"}
	for name, policy := range policies {
		t.Run("in flight, "+name, func(t *testing.T) {
			stages(t, func(s *stage) {
				s.crash(in)
				p := s.process(Options{OnInterrupted: policy}, nil)
				p.begin(other).fails(orchestrator.ErrRequestReused)
				p.execute(in)
				p.begin(other).fails(orchestrator.ErrRequestReused)
				s.ends("a")
			})
		})
	}
	t.Run("failed", func(t *testing.T) {
		stages(t, func(s *stage) {
			boom := errors.New("boom")
			p := s.process(Options{}, func(_ context.Context, t *Turn) error {
				if t.Input.Text == "a" {
					return boom
				}
				return nil
			})
			p.begin(in).fails(boom)
			p.begin(in).fails(boom)
			res := p.execute(other)
			ids := p.runIDs()
			if len(ids) != 2 || slices.Contains(ids[:1], res.RunID) {
				s.Errorf("runs %q, and %q of the other input", ids, res.RunID)
			}
			s.ends("b")
		})
	})
}

// runIDs returns the ids of the runs that began here, each once, in the order of their Begins.
func (p *process) runIDs() (ids []string) {
	for _, ev := range p.events.All() {
		if ev.Kind == orchestrator.TurnStarted && !slices.Contains(ids, ev.RunID) {
			ids = append(ids, ev.RunID)
		}
	}
	return ids
}

// Convicts: a Begin that is repeated when its reply is lost. It brings back a run that the next owner has told as
// failed.
func TestProtocolBeginOnce(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		p := s.process(Options{}, nil)
		other := s.process(Options{}, func(_ context.Context, t *Turn) error {
			if t.Input.Text == "a" {
				return boom
			}
			return nil
		})
		p.next("Begin", func(send func() error) error {
			err := send()
			s.takeOver()
			wantErr(s, other.execute(Input{Text: "b"}).ResumeErr, boom)
			return errors.Join(errLost, err)
		})
		p.begin(Input{Text: "a"}).fails(orchestrator.ErrIndeterminate, errLost)
		if n := p.called("Begin"); n != 1 {
			s.Errorf("%d Begins", n)
		}
		s.ends("b")
	})
}

// A desk is the place where replies are delivered. It may be closed.
type desk struct {
	closed atomic.Bool
	// at is nil if no process waits there.
	at *stop

	mu    sync.Mutex // protects following fields
	turns []int
	runs  []string
}

var errClosed = errors.New("the desk is closed")

func (d *desk) deliver(_ context.Context, r *Result) error {
	if d.closed.Load() {
		return errClosed
	}
	d.mu.Lock()
	d.turns, d.runs = append(d.turns, r.Turn), append(d.runs, r.RunID)
	first := len(d.turns) == 1
	d.mu.Unlock()
	if first && d.at != nil {
		d.at.wait()
	}
	return nil
}

func (d *desk) got() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.turns)
}

// at makes a scribe of the stage deliver to a desk.
func (s *stage) at(d *desk, o Options) *process {
	def := scribe(nil)
	def.Deliver = d.deliver
	return s.processOf(def, o)
}

// Convicts: one slot for owed replies, without order. While the hook fails, the reply of the earlier turn is forgotten.
// That turn must not be pruned either.
func TestProtocolOwed(t *testing.T) {
	for name, last := range map[string]func(p *process){
		"next input": func(p *process) { p.execute(Input{Text: "d"}) },
		"drain, which waits after a failure": func(p *process) {
			if got := recoverable(p.stage, p.Bot, false); len(got) > 0 {
				p.stage.Errorf("recoverable: %q", got)
			}
			p.recovers("held")
			p.execute(Input{Text: "d"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			stages(t, func(s *stage) {
				d := new(desk)
				p, other := s.at(d, Options{KeepSnapshots: 1}), s.at(d, Options{KeepSnapshots: 1})
				d.closed.Store(true)
				p.execute(Input{Text: "a"})
				other.execute(Input{Text: "b"})
				p.execute(Input{Text: "c"})
				d.closed.Store(false)
				last(other)
				if got := d.got(); !slices.Equal(got, []int{0, 1, 2, 3}) {
					s.Errorf("delivered %v", got)
				}
				if got := recoverable(s, p.Bot, true); len(got) > 0 {
					s.Errorf("recoverable: %q", got)
				}
			})
		})
	}
}

// Convicts: the lease released in the Append although a delivery follows. The next owner finds the reply owed, and
// delivers it too, although no call has failed.
func TestProtocolReleasedLast(t *testing.T) {
	stages(t, func(s *stage) {
		d := &desk{at: s.stop()}
		p := s.at(d, Options{})
		other := s.at(d, Options{Limits: orchestrator.Limits{LockWait: time.Millisecond}})
		a := p.begin(Input{Text: "a"})
		d.at.reached()
		other.recovers("held")
		other.begin(Input{Text: "b"}).fails(orchestrator.ErrBusy)
		d.at.goOn()
		a.settles()
		s.at(d, Options{}).execute(Input{Text: "b"})
		if got := d.got(); !slices.Equal(got, []int{0, 1}) {
			s.Errorf("delivered %v", got)
		}
		s.ends("a", "b")
	})
}

// Convicts: Delete without born. An input of the deleted session settles in its successor. Or a request id of the
// former life is answered with its run, or finds its effects.
func TestProtocolNextLife(t *testing.T) {
	in := Input{Text: "a", RequestID: "r"}
	t.Run("same request", func(t *testing.T) {
		stages(t, func(s *stage) {
			p := s.process(Options{}, nil)
			before := p.execute(in)
			if err := p.Delete(t.Context(), scribeKey.Session); err != nil {
				t.Fatal(err)
			}
			if after := p.execute(in); after.Replayed || after.RunID == before.RunID || after.Turn != 0 {
				t.Errorf("%+v, in the life before %+v", after, before)
			}
			s.ends("a")
		})
	})
	for name, next := range map[string]func(p *process) []string{
		"next input": func(p *process) []string {
			if res := p.execute(Input{Text: "c"}); res.Resumed != nil || res.ResumeErr != nil {
				p.stage.Errorf("%+v", res)
			}
			return []string{"b", "c"}
		},
		"same request": func(p *process) []string { p.execute(in); return []string{"b", "a"} },
		"drain":        func(p *process) []string { p.recovers("cleaned"); return []string{"b"} },
	} {
		t.Run("late Begin, "+name, func(t *testing.T) {
			stages(t, func(s *stage) {
				late, other := s.process(Options{}, nil), s.process(Options{}, nil)
				stopped := late.stopBefore("Begin")
				a := late.begin(in)
				stopped.reached()
				if err := other.Delete(t.Context(), scribeKey.Session); err != nil {
					t.Fatal(err)
				}
				other.execute(Input{Text: "b"})
				stopped.goOn()
				a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
				wantRuns(s, other.Bot, 0)
				s.ends(next(other)...)
			})
		})
	}
	// The next life is that of a process without a snapshot store, which does not see its fence.
	t.Run("late Begin, accepted", func(t *testing.T) {
		stages(t, func(s *stage) {
			late, other := s.process(Options{}, nil), s.process(Options{}, nil)
			stopped := late.stopBefore("Begin")
			a := late.begin(in)
			stopped.reached()
			c, err := seize(t.Context(), s.Checkpoints, scribeKey, "undertaker", time.Minute)
			if err == nil {
				err = s.Checkpoints.Delete(t.Context(), c.Lease)
			}
			if err != nil {
				s.Fatal(err)
			}
			s.aside(Input{Text: "b"})
			stopped.goOn()
			a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
			wantRuns(s, other.Bot, 1)
			other.recovers("cleaned")
			s.ends("b")
		})
	})
}
