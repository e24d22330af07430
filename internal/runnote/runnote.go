// Package runnote carries notes about a recovered session from an orchestrator to the drain: the id of the run, and
// that the session is at work. The interface between them names a session and an outcome only, so that a bot may be
// wrapped.
package runnote

import (
	"context"
	"sync/atomic"
)

// A Note takes the notes about one session.
type Note struct {
	id     atomic.Pointer[string]
	atWork func()
}

type key struct{}

// With returns a context in which Set fills in the note, and AtWork calls atWork, possibly several times at once.
func With(ctx context.Context, atWork func()) (context.Context, *Note) {
	n := &Note{atWork: atWork}
	return context.WithValue(ctx, key{}, n), n
}

// Set notes the run that is recovered in ctx, if anybody wants to know.
func Set(ctx context.Context, id string) {
	if n, ok := ctx.Value(key{}).(*Note); ok {
		n.id.Store(&id)
	}
}

// AtWork notes that a function of the bot is about to run for the session that is recovered in ctx, if a drain wants to
// know. The function may take long.
func AtWork(ctx context.Context) {
	if n, ok := ctx.Value(key{}).(*Note); ok {
		n.atWork()
	}
}

// Run returns the id; "" if none was noted.
func (n *Note) Run() string {
	if id := n.id.Load(); id != nil {
		return *id
	}
	return ""
}
