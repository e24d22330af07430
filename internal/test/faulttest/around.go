package faulttest

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Call is a call of a store, as an Around sees it.
type Call struct {
	// Method is the name of the method. Delete of a checkpoint store is called Remove, Adopt of a ledger AdoptEffects,
	// and Record of a turn log RecordPhase.
	Method  string
	Session string
	Run     string
	Status  snapshot.Status // of a Save
	Fence   lock.Fence      // of an Append, and of the calls of a ledger that have one
	Effect  string          // of a Finish
	Outcome ledger.State    // of a Finish
	Phase   string          // of a RecordPhase
	Cargo   snapshot.Cargo  // of a Save that carries something
}

// An Around takes each call of a store. next asks the store. An Around may call next late, twice or never. The call
// returns the error of the Around.
type Around func(ctx context.Context, c Call, next func(context.Context) error) error

// On is an Around for some methods. The others ask the store.
func On(around Around, methods ...string) Around {
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		if slices.Contains(methods, c.Method) {
			return around(ctx, c, next)
		}
		return next(ctx)
	}
}

// Fail is an Around for some methods that asks no store.
func Fail(err error, methods ...string) Around {
	return On(func(context.Context, Call, func(context.Context) error) error { return err }, methods...)
}

// Checkpoints returns s behind an Around. It is neither a Sweeper nor a Watcher. It is a Beater if s is one, and an
// Inspector if s is one.
func Checkpoints(s checkpoint.Store, around Around) checkpoint.Store {
	c := &checkpoints{s, around}
	b, beats := s.(lock.Beater)
	i, inspects := s.(checkpoint.Inspector)
	switch {
	case beats && inspects:
		return struct {
			*beating
			*inspecting
		}{&beating{c, b}, &inspecting{i, around}}
	case beats:
		return &beating{c, b}
	case inspects:
		return struct {
			*checkpoints
			*inspecting
		}{c, &inspecting{i, around}}
	}
	return c
}

// Snapshots returns s behind an Around. It is neither a Sweeper nor a Joiner: see Joined.
func Snapshots(s snapshot.Store, around Around) snapshot.Store { return &snapshots{s, around} }

// ask makes a call that has a result.
func ask[T any](ctx context.Context, around Around, c Call, f func(context.Context) (T, error)) (got T, err error) {
	err = around(ctx, c, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	})
	return got, err
}

// listed makes a call that yields. An error of the Around comes last.
func listed[T any](
	ctx context.Context, around Around, c Call, f func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := around(ctx, c, func(ctx context.Context) error {
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

type checkpoints struct {
	store  checkpoint.Store
	around Around
}

// beating is checkpoints of a Beater.
type beating struct {
	*checkpoints
	beater lock.Beater
}

// Beat implements [lock.Beater].
func (s *beating) Beat(ctx context.Context, process string) (map[string]int64, error) {
	return ask(ctx, s.around, Call{Method: "Beat"},
		func(ctx context.Context) (map[string]int64, error) { return s.beater.Beat(ctx, process) })
}

// Rest implements [lock.Beater].
func (s *beating) Rest(ctx context.Context, process string) error {
	return s.around(ctx, Call{Method: "Rest"}, func(ctx context.Context) error { return s.beater.Rest(ctx, process) })
}

// inspecting is the Head of an Inspector.
type inspecting struct {
	inspector checkpoint.Inspector
	around    Around
}

// Head implements [checkpoint.Inspector].
func (s *inspecting) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	return ask(ctx, s.around, Call{Method: "Head", Session: k.Session},
		func(ctx context.Context) (checkpoint.Head, error) { return s.inspector.Head(ctx, k) })
}

// Claim implements [checkpoint.Store].
func (s *checkpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	return ask(ctx, s.around, Call{Method: "Claim", Session: k.Session},
		func(ctx context.Context) (checkpoint.Claimed, error) { return s.store.Claim(ctx, k, r) })
}

// Renew implements [checkpoint.Store].
func (s *checkpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	return ask(ctx, s.around, Call{Method: "Renew"},
		func(ctx context.Context) ([]checkpoint.Lease, error) { return s.store.Renew(ctx, ttl, leases) })
}

// Held implements [checkpoint.Store].
func (s *checkpoints) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	return ask(ctx, s.around, Call{Method: "Held"},
		func(ctx context.Context) (map[string]string, error) { return s.store.Held(ctx, orchestrator, sessions) })
}

// Append implements [checkpoint.Store].
func (s *checkpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return s.around(ctx, Call{Method: "Append", Session: l.Session, Run: cp.RunID, Fence: l.Fence},
		func(ctx context.Context) error { return s.store.Append(ctx, l, cp, o) })
}

// Mark implements [checkpoint.Store].
func (s *checkpoints) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	return s.around(ctx, Call{Method: "Mark", Session: l.Session},
		func(ctx context.Context) error { return s.store.Mark(ctx, l, m) })
}

// Delete implements [checkpoint.Store].
func (s *checkpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	return s.around(ctx, Call{Method: "Remove", Session: l.Session},
		func(ctx context.Context) error { return s.store.Delete(ctx, l) })
}

// Turns implements [checkpoint.Store].
func (s *checkpoints) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return listed(ctx, s.around, Call{Method: "Turns", Session: k.Session},
		func(ctx context.Context) iter.Seq2[checkpoint.Checkpoint, error] { return s.store.Turns(ctx, k, from) })
}

// Sessions implements [checkpoint.Store].
func (s *checkpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return listed(ctx, s.around, Call{Method: "Sessions"},
		func(ctx context.Context) iter.Seq2[string, error] { return s.store.Sessions(ctx, q) })
}

type snapshots struct {
	store  snapshot.Store
	around Around
}

// Begin implements [snapshot.Store].
func (s *snapshots) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return ask(ctx, s.around, Call{Method: "Begin", Session: r.Session, Run: r.ID},
		func(ctx context.Context) (*snapshot.Run, error) { return s.store.Begin(ctx, r) })
}

// Adopt implements [snapshot.Store].
func (s *snapshots) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	return ask(ctx, s.around, Call{Method: "Adopt", Session: k.Session},
		func(ctx context.Context) (snapshot.Run, error) { return s.store.Adopt(ctx, k, f, maxAttempts) })
}

// Save implements [snapshot.Store].
func (s *snapshots) Save(ctx context.Context, r snapshot.Run) error {
	return s.around(ctx, Call{Method: "Save", Session: r.Session, Run: r.ID, Status: r.Status},
		func(ctx context.Context) error { return s.store.Save(ctx, r) })
}

// Delete implements [snapshot.Store].
func (s *snapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	return s.around(ctx, Call{Method: "Delete", Session: k.Session, Run: id},
		func(ctx context.Context) error { return s.store.Delete(ctx, k, id, f) })
}

// Runs implements [snapshot.Store].
func (s *snapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return listed(ctx, s.around, Call{Method: "Runs", Session: q.Session},
		func(ctx context.Context) iter.Seq2[snapshot.Run, error] { return s.store.Runs(ctx, q) })
}
