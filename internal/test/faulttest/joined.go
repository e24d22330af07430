package faulttest

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Joined returns s behind an Around, as a Joiner with turns and log, the stores that are asked in the end, wherever s
// is one. log may be nil. A turn that settles so is a call named Settle. It carries effects if s does.
func Joined(s snapshot.Store, turns checkpoint.Store, log turnlog.Log, around Around) snapshot.Store {
	return &joined{&snapshots{s, around}, turns, log}
}

type joined struct {
	*snapshots
	turns checkpoint.Store
	log   turnlog.Log
}

// Join implements [snapshot.Joiner].
func (s *joined) Join(checkpoint.Store) snapshot.Settle {
	j, ok := s.store.(snapshot.Joiner)
	if !ok {
		return nil
	}
	settle := j.Join(s.turns)
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		return ask(ctx, s.around, settleOf(l, cp), func(ctx context.Context) (bool, error) {
			return settle(ctx, l, cp, o)
		})
	}
}

// JoinEnds implements [snapshot.EndJoiner].
func (s *joined) JoinEnds(checkpoint.Store, turnlog.Log) snapshot.SettleEnd {
	j, ok := s.store.(snapshot.EndJoiner)
	if !ok {
		return nil
	}
	settle := j.JoinEnds(s.turns, s.log)
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, e snapshot.End,
	) (bool, error) {
		return ask(ctx, s.around, settleOf(l, cp), func(ctx context.Context) (bool, error) {
			return settle(ctx, l, cp, o, e)
		})
	}
}

// JoinEffects implements [snapshot.EffectJoiner], for a ledger that is behind an Around too. A save that carries
// effects is a call named Save. It carries entries for a turn log if s was made with one.
func (s *joined) JoinEffects(l ledger.Ledger, log turnlog.Log) snapshot.SaveEffects {
	j, ok := s.store.(snapshot.EffectJoiner)
	if !ok {
		return nil
	}
	if behind, ok := l.(*effects); ok {
		l = behind.ledger
	}
	if log != nil {
		if log = s.log; log == nil {
			return nil
		}
	}
	save := j.JoinEffects(l, log)
	if save == nil {
		return nil
	}
	return func(ctx context.Context, r snapshot.Run, cargo snapshot.Cargo) (bool, error) {
		c := Call{Method: "Save", Session: r.Session, Run: r.ID, Status: r.Status, Cargo: cargo}
		return ask(ctx, s.around, c, func(ctx context.Context) (bool, error) { return save(ctx, r, cargo) })
	}
}

func settleOf(l checkpoint.Lease, cp checkpoint.Checkpoint) Call {
	return Call{Method: "Settle", Session: l.Session, Run: cp.RunID, Fence: l.Fence}
}
