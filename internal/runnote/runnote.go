// Package runnote carries the id of a recovered run from an orchestrator to the drain that logs it. The interface
// between them names a session and an outcome only, so that a bot may be wrapped.
package runnote

import (
	"context"
	"sync/atomic"
)

// A Note is the id of a run, once it is known.
type Note struct{ id atomic.Pointer[string] }

type key struct{}

// With returns a context in which Set fills in the note.
func With(ctx context.Context) (context.Context, *Note) {
	n := new(Note)
	return context.WithValue(ctx, key{}, n), n
}

// Set notes the run that is recovered in ctx, if anybody wants to know.
func Set(ctx context.Context, id string) {
	if n, ok := ctx.Value(key{}).(*Note); ok {
		n.id.Store(&id)
	}
}

// Run returns the id; "" if none was noted.
func (n *Note) Run() string {
	if id := n.id.Load(); id != nil {
		return *id
	}
	return ""
}
