package enginetest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Stores are the data that outlives a process.
type Stores struct {
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	// Ledger keeps the effects of the bots that buy. If it is nil, their scenarios are not played.
	Ledger ledger.Ledger
	// TurnLog has the phases of the bots that log. If it is nil, their scenarios are not played.
	TurnLog turnlog.Log
	// Joined: turns settle by snapshot.Joiner, which Snapshots must implement.
	Joined bool
	// Carries: saves carry effects by snapshot.EffectJoiner, which Snapshots must implement for Ledger.
	Carries bool
}

// alone returns stores of which each that is in memory is new. A list in memory reads the rows of all orchestrators: a
// soak has tens of thousands of them.
func (s Stores) alone() Stores {
	if _, ok := s.Checkpoints.(*checkpoint.Memory); ok {
		s.Checkpoints = new(checkpoint.Memory)
	}
	if _, ok := s.Snapshots.(*snapshot.Memory); ok {
		s.Snapshots = new(snapshot.Memory)
	}
	if _, ok := s.Ledger.(*ledger.Memory); ok {
		s.Ledger = new(ledger.Memory)
	}
	if _, ok := s.TurnLog.(*turnlog.Memory); ok {
		s.TurnLog = new(turnlog.Memory)
	}
	return s
}

// checkpoints is a checkpoint store as a process sees it.
type checkpoints struct{ *process }

func (c checkpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	name := "claim"
	if r.From != (lock.Fence{}) {
		name = "steal"
	}
	return ask(ctx, c.process, name, func(ctx context.Context) (checkpoint.Claimed, error) {
		got, err := c.Checkpoints.Claim(ctx, k, r)
		if err == nil {
			c.claimed(got)
			err = c.beat(ctx, r.Owner)
		}
		if !errors.Is(err, context.Canceled) { // its caller may leave meanwhile
			err = c.wrote(err)
		}
		return got, err
	})
}

// beat shows that a process which has just claimed is alive. The matrix does it, because a process would be dead before
// its own first beat.
func (c checkpoints) beat(ctx context.Context, owner string) (err error) {
	if c.deadAfter > 0 {
		_, err = c.Checkpoints.(lock.Beater).Beat(ctx, owner)
	}
	return err
}

// beats are checkpoints with beats. They are no points: the clock decides when they come.
type beats struct{ checkpoints }

func (b beats) Beat(ctx context.Context, process string) (map[string]int64, error) {
	if err := b.lives(); err != nil {
		return nil, err
	}
	return b.Checkpoints.(lock.Beater).Beat(ctx, process)
}

func (b beats) Rest(ctx context.Context, process string) error {
	if err := b.lives(); err != nil {
		return err
	}
	return b.Checkpoints.(lock.Beater).Rest(ctx, process)
}

// lives waits while the process is stopped. It returns an error if nothing comes from the process any more.
func (c checkpoints) lives() error {
	select {
	case <-c.stalled:
		<-c.hold
	default:
	}
	if c.dead() {
		return errDead
	}
	if c.suffered() != "" && c.fault.kind.lasts() {
		return errFault
	}
	return nil
}

// Renew is no point: the clock decides when it comes.
func (c checkpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	if err := c.lives(); err != nil {
		return nil, err
	}
	return c.Checkpoints.Renew(ctx, ttl, leases)
}

func (c checkpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return tell(ctx, c.process, "append", func(ctx context.Context) error {
		err := c.wrote(c.Checkpoints.Append(ctx, l, cp, o))
		if err == nil {
			c.appended(l, cp.RunID, o.Release)
		}
		return err
	})
}

func (c checkpoints) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	name := "mark"
	if m == (checkpoint.Marks{Release: true}) {
		name = "release"
	}
	return tell(ctx, c.process, name, func(ctx context.Context) error {
		err := c.wrote(c.Checkpoints.Mark(ctx, l, m))
		if err == nil {
			c.marked(l, m)
		}
		return err
	})
}

func (c checkpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	return tell(ctx, c.process, "delete", func(ctx context.Context) error {
		err := c.wrote(c.Checkpoints.Delete(ctx, l))
		if err == nil {
			c.deleted(l)
		}
		return err
	})
}

func (c checkpoints) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		if err := c.read(ctx, "turns"); err != nil {
			yield(checkpoint.Checkpoint{}, err)
			return
		}
		c.Checkpoints.Turns(ctx, k, from)(yield)
	}
}

func (c checkpoints) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	if err := c.read(ctx, "held"); err != nil {
		return nil, err
	}
	return c.Checkpoints.Held(ctx, orchestrator, sessions)
}

func (c checkpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.read(ctx, "sessions"); err != nil {
			yield("", err)
			return
		}
		c.Checkpoints.Sessions(ctx, q)(yield)
	}
}

// snapshots is a snapshot store as a process sees it.
type snapshots struct{ *process }

func (s snapshots) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return ask(ctx, s.process, "begin", func(ctx context.Context) (*snapshot.Run, error) {
		found, err := s.Snapshots.Begin(ctx, r)
		switch {
		case s.wrote(err) == nil && found == nil:
			s.begins(r)
		case errors.Is(err, lock.ErrFenced):
			s.refused(r.ID)
		}
		return found, err
	})
}

func (s snapshots) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	return ask(ctx, s.process, "adopt", func(ctx context.Context) (snapshot.Run, error) {
		r, err := s.Snapshots.Adopt(ctx, k, f, maxAttempts)
		return r, s.wrote(err)
	})
}

func (s snapshots) Save(ctx context.Context, r snapshot.Run) error {
	return s.saves(ctx, r, func(ctx context.Context) (bool, error) { return true, s.Snapshots.Save(ctx, r) })
}

// saves makes a call that saves r, unless it reports false.
func (s snapshots) saves(ctx context.Context, r snapshot.Run, save func(context.Context) (bool, error)) error {
	name := "save"
	if r.Status == snapshot.Ended {
		name = "end"
	}
	defer s.branchSaved(r.ID)
	come := s.progress(r)
	saved, err := ask(ctx, s.process, name, func(ctx context.Context) (bool, error) {
		saved, err := save(ctx)
		if err = s.wrote(err); err == nil && saved {
			s.saved(r, come)
		}
		return saved, err
	})
	if err == nil && saved {
		s.acknowledged(r, come)
	}
	return err
}

func (s snapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	return tell(ctx, s.process, "drop", func(ctx context.Context) error {
		return s.wrote(s.Snapshots.Delete(ctx, k, id, f))
	})
}

// Join makes a Settle the same point as an Append.
func (s snapshots) Join(checkpoint.Store) snapshot.Settle {
	if !s.Joined || s.apart {
		return nil
	}
	settle := s.Snapshots.(snapshot.Joiner).Join(s.Checkpoints)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		return ask(ctx, s.process, "append", func(ctx context.Context) (bool, error) {
			forgotten, err := settle(ctx, l, cp, o)
			err = s.wrote(err)
			if err == nil {
				s.appended(l, cp.RunID, o.Release)
			}
			return forgotten, err
		})
	}
}

// JoinEffects makes a save that carries effects the same point as any other. Entries are recorded by themselves.
func (s snapshots) JoinEffects(_ ledger.Ledger, log turnlog.Log) snapshot.SaveEffects {
	if !s.Carries || log != nil {
		return nil
	}
	save := s.Snapshots.(snapshot.EffectJoiner).JoinEffects(s.Ledger, nil)
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (taken bool, err error) {
		err = s.saves(ctx, r, func(ctx context.Context) (saved bool, err error) {
			if taken, err = save(ctx, r, c); err == nil && taken {
				for _, e := range c.Issue {
					s.issued(e)
				}
			}
			return taken, err
		})
		return taken, err
	}
}

func (s snapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := s.read(ctx, "runs"); err != nil {
			yield(snapshot.Run{}, err)
			return
		}
		s.Snapshots.Runs(ctx, q)(yield)
	}
}

// begins notes that the process has begun a run.
func (p *process) begins(r snapshot.Run) {
	p.mu.Lock()
	p.began = r.ID
	p.mu.Unlock()
	p.world.began(r)
}
