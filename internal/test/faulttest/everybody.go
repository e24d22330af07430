package faulttest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// Everybody is a locker that grants every key to every caller and never reports a lock as lost. If a store is safe
// behind Everybody, the store needs no lock.
type Everybody struct{}

var _ lock.Locker = Everybody{}

// Lock grants the key at once.
func (Everybody) Lock(ctx context.Context, _ string) (context.Context, func(), error) {
	held, cancel := context.WithCancel(ctx)
	return held, cancel, nil
}

// TryLock grants the key at once.
func (e Everybody) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	return e.Lock(ctx, key)
}

// HistoriesBehindEverybody is [CheckpointHistories] with workers that lock the session with [Everybody] for each claim.
func HistoriesBehindEverybody(t *testing.T, newStore func(*testing.T) checkpoint.Store) {
	t.Helper()
	CheckpointHistories(t, func(t *testing.T) checkpoint.Store { return behind{newStore(t), Everybody{}} },
		Histories()/3)
}

// behind claims under a lock.
type behind struct {
	checkpoint.Store
	room lock.Locker
}

// Claim locks the session first.
func (b behind) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	held, unlock, err := b.room.Lock(ctx, lock.Key(k.Orchestrator, k.Session))
	if err != nil {
		return checkpoint.Claimed{}, err
	}
	defer unlock()
	return b.Store.Claim(held, k, r)
}
