package orchestrator_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// How a turn ends, and which owner may say so.

// Convicts: "same run and nonce" after an Append that found no row to write. The run is settled, by any owner, and the
// first owner returns that. Also convicts: "settled, so mine is". Another owner came to another state, and no deadline
// told the first owner.
func TestProtocolSettledByAnother(t *testing.T) {
	by := func(n int) func(context.Context, *Turn) error {
		return func(_ context.Context, t *Turn) error {
			t.State.N = n
			return nil
		}
	}
	stages(t, func(s *stage) {
		var sent outbox
		zombie, other := s.processOf(sent.deliver(scribe(by(1))), Options{}), s.processOf(sent.deliver(scribe(by(2))),
			Options{})
		stopped := zombie.stopBefore("Append")
		a := zombie.begin(Input{Text: "a"})
		stopped.reached()
		s.takeOver()
		other.recovers("settled")
		stopped.goOn()
		res := a.settles()
		for kept, err := range other.Turns(t.Context(), scribeKey.Session) {
			if err != nil || kept.State.N != 2 || !reflect.DeepEqual(res, kept) {
				t.Errorf("told %+v, and %+v is kept, error %v", res, kept, err)
			}
		}
		if len(sent.results) != 1 || sent.results[0].State.N != 2 {
			t.Errorf("delivered %+v", sent.results)
		}
		s.ends("a")
	})
}

// An outbox notes the deliveries of one process at a time.
type outbox struct{ results []*Result }

func (o *outbox) deliver(d Def) Def {
	d.Deliver = func(_ context.Context, r *Result) error {
		o.results = append(o.results, r)
		return nil
	}
	return d
}

// If the reply to an Append is lost, the work after the turn is the same: one delivery, and the session is released.
func TestProtocolAppendReplyLost(t *testing.T) {
	stages(t, func(s *stage) {
		var sent outbox
		p := s.processOf(sent.deliver(scribe(nil)), Options{})
		p.next("Append", replyLost)
		p.execute(Input{Text: "a"})
		if n := p.called("Append"); n != 2 {
			t.Errorf("%d Appends", n)
		}
		if len(sent.results) != 1 {
			t.Errorf("delivered %+v", sent.results)
		}
		p.execute(Input{Text: "b"})
		s.ends("a", "b")
	})
}

// Convicts: reading after a lost Append reply. The read shows no turn, the caller is told "failed", and then the Append
// arrives.
func TestProtocolDelayedAppend(t *testing.T) {
	t.Parallel()
	t.Run("repeated", func(t *testing.T) {
		stages(t, func(s *stage) {
			var late letter
			p := s.process(Options{}, nil)
			p.next("Append", late.delay)
			p.execute(Input{Text: "a"})
			p.execute(Input{Text: "b"})
			if err := late.send(); !errors.Is(err, checkpoint.ErrConflict) {
				t.Errorf("the late one: %v, and its run is settled", err)
			}
			s.ends("a", "b")
		})
	})
	// No call is answered, and the process gives up: it does not know.
	t.Run("given up", func(t *testing.T) {
		stages(t, func(s *stage) {
			var late letter
			p := s.process(Options{Limits: orchestrator.Limits{SettleTimeout: impatient}}, nil)
			p.next("Append", late.delay)
			p.from("Append", requestLost)
			p.from("Mark", requestLost)
			p.begin(Input{Text: "a", RequestID: "r"}).fails(orchestrator.ErrIndeterminate, errLost)
			if err := late.send(); err != nil {
				t.Errorf("the late one: %v", err)
			}
			s.takeOver()
			if res := s.process(Options{}, nil).execute(Input{Text: "a", RequestID: "r"}); !res.Replayed {
				t.Errorf("%+v", res)
			}
			s.ends("a")
		})
	})
	// The next owner tells its caller that the run has ended. Only then the Append is repeated and arrives.
	t.Run("fenced", func(t *testing.T) {
		stages(t, func(s *stage) {
			var late letter
			p, other := s.process(Options{}, nil), s.process(Options{OnInterrupted: orchestrator.AbandonFirst}, nil)
			p.next("Append", late.delay, func(send func() error) error {
				s.takeOver()
				other.execute(Input{Text: "b"})
				return send()
			})
			p.begin(Input{Text: "a"}).fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
			wantErr(t, late.send(), lock.ErrFenced)
			s.ends("b")
		})
	})
}

// Convicts: a failed turn whose run is kept, or whose end was not acknowledged. Another owner finds the run, and
// settles a turn that was told as failed.
func TestProtocolFailed(t *testing.T) {
	boom := errors.New("boom")
	fail := func(context.Context, *Turn) error { return boom }
	in := Input{Text: "a", RequestID: "r"}
	for name, lost := range map[string]rule{
		"told": nil, "Delete's request lost": requestLost,
		"Delete's reply lost": replyLost,
	} {
		t.Run(name, func(t *testing.T) {
			stages(t, func(s *stage) {
				p := s.process(Options{}, fail)
				p.from("Delete", lost)
				p.begin(in).fails(boom)
				s.ends()
			})
		})
	}
	t.Run("Save repeated", func(t *testing.T) {
		stages(t, func(s *stage) {
			p := s.process(Options{}, fail)
			p.next("Save", requestLost, replyLost)
			p.begin(in).fails(boom)
			s.ends()
		})
	})
	for name, lost := range map[string]rule{"request": requestLost, "reply": replyLost} {
		t.Run("Save's "+name+" lost", func(t *testing.T) {
			t.Parallel()
			stages(t, func(s *stage) {
				p := s.process(Options{Limits: orchestrator.Limits{SettleTimeout: impatient}}, fail)
				p.from("Save", lost)
				p.begin(in).fails(orchestrator.ErrIndeterminate, boom, errLost)
				s.process(Options{}, nil).execute(in)
				s.ends("a")
			})
		})
	}
	// The Save that ends the run arrives after the next owner has taken the run up.
	t.Run("Save delayed", func(t *testing.T) {
		t.Parallel()
		stages(t, func(s *stage) {
			var late letter
			there := s.stop()
			p := s.process(Options{Limits: orchestrator.Limits{SettleTimeout: impatient}}, fail)
			other := s.process(Options{}, there.stopAt(0))
			p.next("Save", late.delay)
			p.from("Save", requestLost)
			p.begin(in).fails(orchestrator.ErrIndeterminate, boom, errLost)
			a := other.begin(in)
			there.reached()
			wantErr(t, late.send(), lock.ErrFenced)
			there.goOn()
			a.settles()
			s.ends("a")
		})
	})
}

// Convicts: a Save or Delete on the way to "failed" that finds no row, or another fence, and counts as ours. Another
// owner settles the turn, or has settled it.
func TestProtocolFailsLate(t *testing.T) {
	boom := errors.New("boom")
	for name, iteration := range map[string]int{"nothing is left": iterations, "another's fence": 1} {
		t.Run(name, func(t *testing.T) {
			stages(t, func(s *stage) {
				old, adopted := s.stop(), s.stop()
				zombie := s.process(Options{}, func(context.Context, *Turn) error { old.wait(); return boom })
				other := s.process(Options{}, adopted.stopAt(iteration))
				a := zombie.begin(Input{Text: "a", RequestID: "r"})
				old.reached()
				s.takeOver()
				again := other.begin(Input{Text: "a", RequestID: "r"})
				if iteration < iterations {
					adopted.reached()
				} else {
					again.settles()
				}
				old.goOn()
				a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
				if iteration < iterations {
					adopted.goOn()
				}
				again.settles()
				s.ends("a")
			})
		})
	}
	// An owner that abandons a found run gets the same answer: its own input does not begin.
	t.Run("abandoned", func(t *testing.T) {
		stages(t, func(s *stage) {
			s.crash(Input{Text: "a"})
			zombie, other := s.process(Options{OnInterrupted: orchestrator.AbandonFirst}, nil), s.process(Options{},
				nil)
			stopped := zombie.stopBefore("Save")
			b := zombie.begin(Input{Text: "b"})
			stopped.reached()
			s.takeOver()
			other.recovers("settled")
			stopped.goOn()
			s.await(b.done)
			wantErr(t, b.err, lock.ErrFenced)
			s.ends("a")
		})
	})
}
