package lock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Fence proves that its bearer is the latest owner of a session. Compare fences with ==.
type Fence struct {
	// Epoch grows with each claim of a session.
	Epoch int64
	// Nonce is random. It tells apart two claims that got the same epoch.
	Nonce string
}

// The conditions of ownership. Each is one value for all contracts. The package comment says what each means.
var (
	ErrHeld    = store.Verdict("held by another owner")
	ErrFenced  = store.Verdict("another owner has taken over")
	ErrLost    = errors.New("ownership lost")
	ErrExpired = errors.New("lease expired")
	ErrHandoff = errors.New("handed off for shutdown")
)

// A HeldError is the ErrHeld of a claim. It names the owner and the owner's fence, from which another claim may take
// over. Both are zero if there is no owner: a claim that names a fence and comes too late is refused this way.
type HeldError struct {
	// Owner is the process: a Beater knows it by the same name.
	Owner string
	Fence Fence
}

// Error returns the text of ErrHeld, followed by the owner if there is one.
func (e *HeldError) Error() string {
	if e.Owner == "" {
		return ErrHeld.Error()
	}
	return ErrHeld.Error() + ": " + e.Owner
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// A Raiser is a store that knows owners by their fences. All stores and ledgers of the module are Raisers.
//
// Raise is for the moment after a failover, or after a backup was restored, when the store may lack what was written
// since lost. An owner that was fenced off by such a write would be an owner again. The zero time says that nobody
// knows since when. Raise the snapshot store first, then the checkpoint store, then the ledger, before traffic is let
// in: docs/operations.md has the runbook.
type Raiser interface {
	// Raise ends all owners: the store refuses each fence that was issued before, and claims of the sessions get higher
	// ones. It returns how many sessions, runs or effects it has taken from an owner. It may be repeated, and must be
	// after an error.
	//
	// Only a ledger has a use for lost: see package ledger.
	Raise(ctx context.Context, lost time.Time) (ended int, err error)
}

// A Locker lets the callers that wait for a key queue at a cheaper place than the store. A key is any string.
// Its methods may be called concurrently.
type Locker interface {
	// Lock waits for key until ctx is done. If ctx ends first, Lock returns the cause of ctx.
	//
	// held derives from ctx. If the lock is lost, held is cancelled with cause ErrLost before another caller can get
	// the key. unlock may be called more than once and needs no live ctx. After unlock, held is done.
	Lock(ctx context.Context, key string) (held context.Context, unlock func(), err error)

	// TryLock is Lock without the wait: if the key is taken, TryLock returns ErrHeld at once.
	TryLock(ctx context.Context, key string) (held context.Context, unlock func(), err error)
}

// Key returns the lock key of a session. It is the same in every process and version. No two sessions share a key:
// the length in bytes of the orchestrator's name precedes that name.
func Key(orchestrator, session string) string {
	return strconv.Itoa(len(orchestrator)) + ":" + orchestrator + "/" + session
}
