package lock

import (
	"context"
	"errors"
	"strconv"
)

// A Fence proves that its bearer is the latest owner of a session. Fences are compared with ==.
type Fence struct {
	Epoch int64
	Nonce string
}

// The conditions of ownership, one value each for all contracts.
var (
	ErrHeld    = errors.New("held by another owner")
	ErrFenced  = errors.New("another owner has taken over")
	ErrLost    = errors.New("ownership lost")
	ErrExpired = errors.New("lease expired")
	ErrHandoff = errors.New("handed off for shutdown")
)

// A Locker makes the waiters for a key queue somewhere cheaper than the store. A key is any string.
// Its methods may be called concurrently.
type Locker interface {
	// Lock waits for key until ctx is done, in which case it returns the cause of ctx. held derives from ctx and
	// is cancelled with cause ErrLost before another caller could get the key. unlock may be called more than once
	// and needs no live ctx; after it held is done.
	Lock(ctx context.Context, key string) (held context.Context, unlock func(), err error)

	// TryLock is Lock for callers who have better things to do than wait: ErrHeld at once.
	TryLock(ctx context.Context, key string) (held context.Context, unlock func(), err error)
}

// Key is the one lock key of a session, the same in every process and version. No two sessions share one:
// the name of the orchestrator is preceded by its length in bytes.
func Key(orchestrator, session string) string {
	return strconv.Itoa(len(orchestrator)) + ":" + orchestrator + "/" + session
}
