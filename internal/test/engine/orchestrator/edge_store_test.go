package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Answers of stores, at unusual times, that the engine must not mistake.

// A session that was granted to a caller who has left is released.
func TestGrantedTooLate(t *testing.T) {
	stages(t, func(s *stage) {
		p := s.process(Options{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		p.next("Claim", func(send func() error) error { defer cancel(); return send() })
		_, err := p.Execute(ctx, scribeKey.Session, Input{Text: "a"}, nil)
		wantErr(s, err, context.Canceled)
		other := s.process(Options{Limits: orchestrator.Limits{LockWait: time.Millisecond}}, nil)
		other.execute(Input{Text: "b"})
		s.ends("b")
	})
}

// If an owner's lease expires while it delivers an owed reply, the owner does not take up the run in flight.
func TestAdoptsNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		w := newWorld()
		owing := scribe(nil)
		owing.Deliver = func(context.Context, *Result) error { return errors.New("down") }
		s := &stage{t, w}
		s.processOf(owing, Options{}).execute(Input{Text: "a"})
		s.crash(Input{Text: "b"})
		slow := scribe(nil)
		slow.Deliver = func(context.Context, *Result) error { time.Sleep(2 * ttl); return nil }
		late := &stage{t, worldOf(unrenewed(w.Checkpoints), w.Snapshots)}
		p := late.processOf(slow, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}})
		_, err := p.Resume(t.Context(), scribeKey.Session, nil)
		wantErr(t, err, lock.ErrExpired)
		if n := p.called("Adopt"); n != 0 {
			t.Errorf("%d Adopts", n)
		}
	})
}

// swap is a rule for Adopt. Before the Adopt arrives, the owner deletes the run in flight, and another run begins under
// a fence that is lower than the adopter's.
func (s *stage) swap(run snapshot.Run, id string) rule {
	return func(send func() error) error {
		ctx := s.Context()
		next := run
		next.ID, next.RequestID, next.Seq = id, "", 0
		next.Fence.Epoch++
		err := s.Snapshots.Delete(ctx, run.Key, run.ID, run.Fence)
		if err == nil {
			_, err = s.Snapshots.Begin(ctx, next)
		}
		if err != nil {
			s.Error(err)
		}
		return send()
	}
}

// Adopt returns another run than the caller found. Its id differs, so it is not the caller's own run.
func TestAnotherRunIsAdopted(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		d := scribe(nil)
		d.Begin = func(context.Context, *Turn) error { return nil } // so that a listing finds the run, not a Begin
		p := s.processOf(d, Options{})
		run := wantRuns(s, p.Bot, 1)[0]
		p.next("Adopt", s.swap(run, "another"))
		res := p.execute(in)
		if res.RunID != run.ID || res.Resumed == nil || res.Resumed.RunID != "another" {
			s.Errorf("told %q of run %q, after %+v", res.Input.Text, res.RunID, res.Resumed)
		}
		s.ends("a", "a")
	})
}

// An Abandon that meets another run leaves that run to the next caller, who may begin at once.
func TestAbandonMeetsAnother(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{}, nil)
		run := wantRuns(s, p.Bot, 1)[0]
		p.next("Adopt", s.swap(run, "another"))
		if ended, err := p.Abandon(t.Context(), scribeKey.Session, run.ID); ended || err != nil {
			s.Errorf("ended %t, %v", ended, err)
		}
		if left := wantRuns(s, p.Bot, 1)[0]; left.ID != "another" || left.Status != snapshot.Waiting {
			s.Errorf("left %s, %s", left.ID, left.Status)
		}
		p.recovers("settled")
		s.ends("a")
	})
}

// A run was found, and then its caller was told that it had ended. After Adopt it does not run.
func TestEndedMeanwhile(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{}, nil)
		run := wantRuns(s, p.Bot, 1)[0]
		p.next("Adopt", func(send func() error) error {
			run.Status, run.Seq, run.Payload = snapshot.Ended, run.Seq+1, nil
			if err := s.Snapshots.Save(t.Context(), run); err != nil {
				s.Error(err)
			}
			return send()
		})
		p.execute(Input{Text: "b"})
		s.ends("b")
	})
}

// A run has ended and was deleted, and its input came again, between its finding and its adoption. It is not deleted.
func TestBegunAgainMeanwhile(t *testing.T) {
	stages(t, func(s *stage) {
		s.crash(Input{Text: "a"})
		p := s.process(Options{}, nil)
		live := wantRuns(s, p.Bot, 1)[0]
		ended := live
		ended.Status, ended.Seq, ended.Payload = snapshot.Ended, live.Seq+1, nil
		if err := s.Snapshots.Save(t.Context(), ended); err != nil {
			s.Fatal(err)
		}
		p.next("Adopt", func(send func() error) error {
			again := live
			again.Fence.Epoch, again.Seq = live.Fence.Epoch+1, 0
			err := s.Snapshots.Delete(t.Context(), live.Key, live.ID, live.Fence)
			if err == nil {
				_, err = s.Snapshots.Begin(t.Context(), again)
			}
			return errors.Join(err, send())
		})
		p.recovers("settled")
		s.ends("a")
	})
}

// An Append without an answer is repeated, and the repeat is refused as invalid. The first Append may have taken
// effect, so the outcome is unknown.
func TestInvalidInDoubt(t *testing.T) {
	stages(t, func(s *stage) {
		p := s.process(Options{}, nil)
		p.next("Append", replyLost, func(func() error) error { return checkpoint.ErrInvalid })
		p.begin(Input{Text: "a", RequestID: "r"}).fails(orchestrator.ErrIndeterminate, checkpoint.ErrInvalid)
		s.takeOver()
		s.process(Options{}, nil).execute(Input{Text: "a", RequestID: "r"})
		s.ends("a")
	})
}

// A run that has ended has the text of its error.
func TestErrorOfEndedIsStored(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error {
			return errors.New("declined: insufficient funds")
		}}
		bot := worldOf(w.Checkpoints, hoarder{Store: w.Snapshots}).Start(t, d, Options{})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil); err == nil {
			t.Fatal("no error")
		}
		for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "echo"}}) {
			if err != nil || r.Status != snapshot.Ended || !strings.Contains(r.Error, "insufficient funds") {
				t.Errorf("%s %q, %v", r.Status, r.Error, err)
			}
		}
	})
}

// A branch that has finished does not run again, also if it was the last to finish and its caller was gone. If another
// turn has settled in between, the branch runs again: it started from an older state.
func TestFinishedBranches(t *testing.T) {
	for name, moved := range map[string]bool{"same base": false, "moved": true} {
		t.Run(name, func(t *testing.T) {
			backends(t, func(t *testing.T, w world) {
				ctx, cancel := context.WithCancel(t.Context())
				aThere, bLeft := make(chan struct{}), make(chan struct{})
				bot := w.Start(t, fork(func(inner context.Context, name string, _ *Turn) error {
					if name == "b" {
						<-aThere
						cancel()
						defer close(bLeft)
						return context.Canceled
					}
					close(aThere)
					<-bLeft
					return nil
				}), Options{})
				_, err := bot.Execute(ctx, "s", Input{Text: "x", RequestID: "r"}, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
				if moved {
					aside := fork(func(context.Context, string, *Turn) error { return nil })
					bot, err := orchestrator.New(aside, w.Checkpoints, &Options{Logger: quiet()})
					if err == nil {
						_, err = bot.Execute(t.Context(), "s", Input{Text: "y"}, nil)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				var mu sync.Mutex
				var ran []string
				other := w.Start(t, fork(func(_ context.Context, name string, _ *Turn) error {
					mu.Lock()
					defer mu.Unlock()
					ran = append(ran, name)
					return nil
				}), Options{})
				res := execute(t, other, Input{Text: "x", RequestID: "r"})
				slices.Sort(ran)
				want, state := []string{"b"}, "ab"
				if moved {
					want, state = []string{"a", "b"}, "aabb"
				}
				if !slices.Equal(ran, want) || res.State.A+res.State.B != state {
					t.Errorf("ran %q, state %q, want %q and %q", ran, res.State.A+res.State.B, want, state)
				}
			})
		})
	}
}

// If no store accepts a branch, it is not saved with the run that waits for its next attempt.
func TestUnsavableBranch(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		die := func(die func()) Def {
			return fork(func(context.Context, string, *Turn) error {
				if die != nil {
					die()
				}
				return nil
			})
		}
		w.Crash(t, die, Input{Text: "x"})
		first := make(chan struct{})
		bot := w.Start(t, fork(func(_ context.Context, name string, t *Turn) error {
			if name == "a" {
				t.State.Said = []string{"\x00"}
				defer close(first)
				return nil
			}
			<-first
			return nil
		}), Options{})
		if _, err := bot.Recover(t.Context(), "s"); err == nil {
			t.Fatal("it settles")
		}
		run := wantRuns(t, bot, 1)[0]
		if run.Status != snapshot.Waiting || run.Pause <= 0 || run.Error == "" {
			t.Errorf("%s, due in %v, %q", run.Status, run.Pause, run.Error)
		}
	})
}
