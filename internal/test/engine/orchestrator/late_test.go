package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// What an owner stops doing when the session is lost.

// expiring returns a process of the stage whose leases are never renewed.
func (s *stage) expiring(d Def, ttl time.Duration) *process {
	late := &stage{s.T, worldOf(unrenewed(s.Checkpoints), s.Snapshots)}
	return late.processOf(d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl}})
}

// A Begin that finds a run in flight may be answered when the lease has expired. The owner does not take the run up.
func TestSlowBeginAdoptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		s := &stage{t, newWorld()}
		s.crash(Input{Text: "a"})
		p := s.expiring(scribe(nil), ttl)
		p.next("Begin", func(send func() error) error {
			defer time.Sleep(2 * ttl)
			return send()
		})
		_, err := p.Execute(t.Context(), scribeKey.Session, Input{Text: "b"}, nil)
		wantErr(t, err, lock.ErrExpired)
		if n := p.called("Adopt"); n != 0 {
			t.Errorf("%d Adopts", n)
		}
	})
}

// Two turns are owed, and the lease expires while the first is handed over. The second is neither migrated nor
// delivered.
func TestBacklogStopsAtExpiry(t *testing.T) {
	const ttl = time.Second
	for name, c := range map[string]struct {
		migrate, deliver    time.Duration // how long each takes
		migrated, delivered int
	}{
		"in Deliver": {0, 2 * ttl, 1, 1},
		"in Migrate": {2 * ttl, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down, migrated, delivered := errors.New("down"), 0, 0
				old, d := scribe(nil), scribe(nil)
				old.Deliver = func(context.Context, *Result) error { return down }
				s := &stage{t, newWorld()}
				p := s.processOf(old, Options{})
				p.execute(Input{Text: "a"})
				p.execute(Input{Text: "b"})
				d.Version = "2"
				d.Migrate = func(context.Context, checkpoint.Checkpoint) (State, error) {
					migrated++
					time.Sleep(c.migrate)
					return State{}, nil
				}
				d.Deliver = func(context.Context, *Result) error {
					delivered++
					time.Sleep(c.deliver)
					return nil
				}
				time.Sleep(time.Hour) // until they are due
				_, err := s.expiring(d, ttl).Recover(t.Context(), scribeKey.Session)
				wantErr(t, err, lock.ErrExpired)
				if migrated != c.migrated || delivered != c.delivered {
					t.Errorf("migrated %d, delivered %d", migrated, delivered)
				}
			})
		})
	}
}

// An owner whose lease has expired sends no more requests: the store may be out of reach, and the caller waits. If the
// expiry cuts off a delivery, the delivery does not count as failed.
func TestExpiredSendsNothing(t *testing.T) {
	const ttl = time.Second
	for name, where := range map[string]func(*Def){
		"in an intent": func(d *Def) {
			d.Intents = Intents{"note": {Run: func(context.Context, *Turn) error { time.Sleep(2 * ttl); return nil }}}
		},
		"in Deliver": func(d *Def) {
			d.Deliver = func(ctx context.Context, _ *Result) error { <-ctx.Done(); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := scribe(nil)
				where(&d)
				p := (&stage{t, newWorld()}).expiring(d, ttl)
				_, _ = p.Execute(t.Context(), scribeKey.Session, Input{Text: "a"}, nil)
				if n := p.called("Mark"); n != 0 {
					t.Errorf("%d Marks", n)
				}
			})
		})
	}
}

// silence fences the next call of a kind. After that, every further call fails the test.
func (p *process) silence(method string) {
	p.next(method, func(func() error) error {
		for _, any := range []string{"Claim", "Append", "Mark", "Remove", "Begin", "Adopt", "Save", "Delete"} {
			p.from(any, func(send func() error) error {
				p.stage.Errorf("%s after %s was fenced", any, method)
				return send()
			})
		}
		return lock.ErrFenced
	})
}

// A call that was fenced is the last one that an owner sends.
func TestFencedSendsNothing(t *testing.T) {
	in := Input{Text: "a", RequestID: "r"}
	other := func(p *process) error {
		_, err := p.Execute(p.stage.Context(), scribeKey.Session, Input{Text: "b"}, nil)
		return err
	}
	own := func(p *process) error {
		_, err := p.Execute(p.stage.Context(), scribeKey.Session, in, nil)
		return err
	}
	remove := func(p *process) error { return p.Bot.Delete(p.stage.Context(), scribeKey.Session) }
	crashed := func(s *stage) { s.crash(in) }
	ended := func(s *stage) { // ended, but not deleted
		p := s.process(Options{}, func(context.Context, *Turn) error { return errDead })
		p.from("Delete", requestLost)
		p.begin(in).fails(errDead)
	}
	nothing := func(*stage) {}
	abandon := Options{OnInterrupted: orchestrator.AbandonFirst}
	for name, c := range map[string]struct {
		before func(*stage)
		o      Options
		call   func(*process) error
		method string
	}{
		"Begin":                      {nothing, Options{}, own, "Begin"},
		"Adopt of its own run":       {crashed, Options{}, own, "Adopt"},
		"Adopt of another's":         {crashed, Options{}, other, "Adopt"},
		"Adopt of one that is over":  {ended, Options{}, other, "Adopt"},
		"Delete of one that is over": {ended, Options{}, other, "Delete"},
		"Adopt of one to abandon":    {crashed, abandon, other, "Adopt"},
		"Save of one to abandon":     {crashed, abandon, other, "Save"},
		"Save of progress":           {nothing, Options{}, own, "Save"},
		"Append":                     {nothing, Options{}, own, "Append"},
		"Adopt before a Delete":      {nothing, Options{}, remove, "Adopt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{t, newWorld()}
			c.before(s)
			p := s.process(c.o, nil)
			p.silence(c.method)
			wantErr(t, c.call(p), lock.ErrFenced)
		})
	}
}

// lateRenewals returns a checkpoint store that delays each Renew.
func lateRenewals(s checkpoint.Store, after time.Duration) checkpoint.Store {
	return faulttest.Checkpoints(s, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			time.Sleep(after)
			return next(ctx)
		}, "Renew"))
}

// A second claim replaces the first. Neither the timer of the first lease nor a late answer about it ends the turn.
func TestRenewedFenceOutlivesTheFirst(t *testing.T) {
	for name, after := range map[string]time.Duration{"timer": 0, "renewal under way": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				boom, down := errors.New("boom"), errors.New("down")
				s := &stage{t, newWorld()}
				in := Input{Text: "a", RequestID: "r"}
				failing := scribe(func(_ context.Context, t *Turn) error {
					if t.Input.Text == "a" {
						return boom
					}
					return nil
				})
				failing.Deliver = func(context.Context, *Result) error { return down }
				first := s.processOf(failing, Options{})
				first.execute(Input{Text: "owed"})
				first.from("Delete", requestLost)
				first.begin(in).fails(boom)

				d := scribe(func(context.Context, *Turn) error { time.Sleep(20 * time.Second); return nil })
				d.Deliver = func(_ context.Context, r *Result) error {
					if r.Input.Text == "owed" {
						// The lease is renewed after ten seconds.
						time.Sleep(12 * time.Second)
					}
					return nil
				}
				there := &stage{t, worldOf(lateRenewals(s.Checkpoints, after), s.Snapshots)}
				o := Options{Limits: orchestrator.Limits{LeaseTTL: 30 * time.Second, SettleTimeout: 20 * time.Second}}
				p := there.processOf(d, o)
				_, err := p.Execute(t.Context(), scribeKey.Session, in, nil)
				if err != nil || p.called("Claim") != 2 {
					t.Errorf("%v, after %d claims", err, p.called("Claim"))
				}
				time.Sleep(time.Minute) // until no renewal is under way
			})
		})
	}
}

// A claim that replaces a fence has no answer yet when the leases are renewed. The renewal says that the former lease
// is lost. That says nothing about the new one.
func TestRenewalBesideAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t, newWorld()}
		s.crash(Input{Text: "a"})
		p := s.process(Options{Limits: orchestrator.Limits{
			LeaseTTL:      30 * time.Second,
			SettleTimeout: 20 * time.Second,
		}}, nil)
		p.next("Claim", nil, func(send func() error) error {
			// The leases are renewed after ten seconds.
			defer time.Sleep(12 * time.Second)
			return errors.Join(send(), errLost)
		})
		p.execute(Input{Text: "b"})
		s.ends("a", "b")
	})
}

// If the store refuses a Save, because its schema is too old for example, no turn fails. The run stays as it was saved.
func TestUnsavedIsNoFailure(t *testing.T) {
	s := &stage{t, newWorld()}
	in := Input{Text: "a", RequestID: "r"}
	p := s.process(Options{}, nil)
	p.next("Save", func(func() error) error { return snapshot.ErrSchema })
	p.begin(in).fails(orchestrator.ErrIndeterminate, snapshot.ErrSchema)
	s.process(Options{}, nil).execute(in)
	s.ends("a")
}
