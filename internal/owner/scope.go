package owner

import (
	"context"
	"sync/atomic"
)

// A Scope tells, in the contexts of a turn, which session calls and for which run. If a context outlives its call, the
// Scope does too, and keeps nothing else of the call alive.
type Scope struct {
	// Context is the caller's.
	context.Context
	process *Process
	session string

	// outer is the Scope of the turn that has made the call; nil if no turn has made it.
	outer *Scope

	// over says that the call has ended. A function that the call has left running may call again.
	over atomic.Bool

	// run is the id of the run that is at work.
	run atomic.Pointer[string]
}

// ScopeIn returns the innermost Scope of ctx; nil outside of turns.
func ScopeIn(ctx context.Context) *Scope {
	c, _ := ctx.Value(scopeKey{}).(*Scope)
	return c
}

// Session returns the session that calls, or "".
func (c *Scope) Session() string {
	if c == nil {
		return ""
	}
	return c.session
}

// Run returns the id of the run that is at work, or "".
func (c *Scope) Run() string {
	if c == nil || c.run.Load() == nil {
		return ""
	}
	return *c.run.Load()
}

type scopeKey struct{}

// Value finds the Scope itself.
func (c *Scope) Value(key any) any {
	if key == (scopeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *Scope) worksOn(run string) bool {
	at := c.run.Load()
	return at != nil && *at == run
}

// has reports whether the call comes from a turn of the session.
func (c *Scope) has(orchestrator, session string) bool {
	for ; c != nil; c = c.outer {
		if c.process.options.Orchestrator == orchestrator && c.session == session && !c.over.Load() {
			return true
		}
	}
	return false
}

// within reports whether the call comes from a turn of p.
func (c *Scope) within(p *Process) bool {
	for ; c != nil; c = c.outer {
		if c.process == p && !c.over.Load() {
			return true
		}
	}
	return false
}
