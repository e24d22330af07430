package orchestratortest

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// ask makes a call that has a result.
func ask[T any](ctx context.Context, l *life, call string, f func(context.Context) (T, error)) (got T, err error) {
	err = l.do(ctx, call, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	})
	return got, err
}

// listed makes a call that yields. The error of a fault comes last.
func listed[T any](
	ctx context.Context, l *life, call string, f func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := l.do(ctx, call, func(ctx context.Context) error {
			for v, err := range f(ctx) {
				if stopped = !yield(v, err); stopped {
					break
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(*new(T), err)
		}
	}
}

// checkpoints is a checkpoint store as a process sees it.
type checkpoints struct {
	store checkpoint.Store
	life  *life
}

// beating is checkpoints of a Beater. Beats come with time, so they are no steps, and no fault is for them. A process
// that is dead or cut off is silent.
type beating struct {
	*checkpoints
	beater lock.Beater
}

// Beat implements [lock.Beater].
func (s *beating) Beat(ctx context.Context, process string) (map[string]int64, error) {
	if err := s.life.reachable(); err != nil {
		return nil, err
	}
	return s.beater.Beat(ctx, process)
}

// Rest implements [lock.Beater].
func (s *beating) Rest(ctx context.Context, process string) error {
	if err := s.life.reachable(); err != nil {
		return err
	}
	return s.beater.Rest(ctx, process)
}

// inspecting is the Head of an Inspector, as a process sees it.
type inspecting struct {
	inspector checkpoint.Inspector
	life      *life
}

// Head implements [checkpoint.Inspector].
func (s *inspecting) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	return ask(ctx, s.life, "checkpoint.Head",
		func(ctx context.Context) (checkpoint.Head, error) { return s.inspector.Head(ctx, k) })
}

// Claim implements [checkpoint.Store].
func (s *checkpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	return ask(ctx, s.life, "checkpoint.Claim", func(ctx context.Context) (checkpoint.Claimed, error) {
		c, err := s.store.Claim(ctx, k, r)
		if err == nil {
			s.life.claimed(c.Lease)
		}
		return c, err
	})
}

// Renew implements [checkpoint.Store].
func (s *checkpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	return ask(ctx, s.life, "checkpoint.Renew",
		func(ctx context.Context) ([]checkpoint.Lease, error) { return s.store.Renew(ctx, ttl, leases) })
}

// Held implements [checkpoint.Store].
func (s *checkpoints) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	return ask(ctx, s.life, "checkpoint.Held",
		func(ctx context.Context) (map[string]string, error) { return s.store.Held(ctx, orchestrator, sessions) })
}

// Append implements [checkpoint.Store].
func (s *checkpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return s.life.do(ctx, "checkpoint.Append",
		func(ctx context.Context) error { return s.store.Append(ctx, l, cp, o) })
}

// Mark implements [checkpoint.Store].
func (s *checkpoints) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	return s.life.do(ctx, "checkpoint.Mark", func(ctx context.Context) error { return s.store.Mark(ctx, l, m) })
}

// Delete implements [checkpoint.Store].
func (s *checkpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	return s.life.do(ctx, "checkpoint.Delete", func(ctx context.Context) error { return s.store.Delete(ctx, l) })
}

// Turns implements [checkpoint.Store].
func (s *checkpoints) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return listed(ctx, s.life, "checkpoint.Turns",
		func(ctx context.Context) iter.Seq2[checkpoint.Checkpoint, error] { return s.store.Turns(ctx, k, from) })
}

// Sessions implements [checkpoint.Store].
func (s *checkpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return listed(ctx, s.life, "checkpoint.Sessions",
		func(ctx context.Context) iter.Seq2[string, error] { return s.store.Sessions(ctx, q) })
}

// snapshots is a snapshot store as a process sees it.
type snapshots struct {
	store snapshot.Store
	life  *life
}

// Begin implements [snapshot.Store].
func (s *snapshots) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return ask(ctx, s.life, "snapshot.Begin",
		func(ctx context.Context) (*snapshot.Run, error) { return s.store.Begin(ctx, r) })
}

// Adopt implements [snapshot.Store].
func (s *snapshots) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	return ask(ctx, s.life, "snapshot.Adopt",
		func(ctx context.Context) (snapshot.Run, error) { return s.store.Adopt(ctx, k, f, maxAttempts) })
}

// Save implements [snapshot.Store].
func (s *snapshots) Save(ctx context.Context, r snapshot.Run) error {
	return s.life.do(ctx, "snapshot.Save", func(ctx context.Context) error { return s.store.Save(ctx, r) })
}

// Delete implements [snapshot.Store].
func (s *snapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	return s.life.do(ctx, "snapshot.Delete", func(ctx context.Context) error { return s.store.Delete(ctx, k, id, f) })
}

// Runs implements [snapshot.Store].
func (s *snapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return listed(ctx, s.life, "snapshot.Runs",
		func(ctx context.Context) iter.Seq2[snapshot.Run, error] { return s.store.Runs(ctx, q) })
}
