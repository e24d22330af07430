package orchestrator

import (
	"context"
	"fmt"
	"time"
)

// Shutdown refuses new turns, waits for the current turns until ctx ends, and hands the rest off. With a snapshot
// store, the runs that were handed off stay in flight for their next owner, and their callers get ErrIndeterminate and
// lock.ErrHandoff.
//
// Shutdown returns when all calls have ended. It returns an error only if some calls have not: a function of the bot
// went on. Close the stores' clients after Shutdown.
func (o *Orchestrator[S]) Shutdown(ctx context.Context) error {
	idle := o.engine.sessions.Close()
	select {
	case <-idle:
		o.engine.sessions.Rest()
		return nil
	case <-ctx.Done():
	}
	o.engine.sessions.HandOff()
	// A function ends, its turn is left, and the session is released.
	patience := time.NewTimer(3 * o.engine.options.Limits.SettleTimeout)
	defer patience.Stop()
	select {
	case <-idle:
		o.engine.sessions.Rest()
		return nil
	case <-patience.C:
		return &Error{Op: "shutdown", Err: fmt.Errorf("%d calls have not ended", len(o.engine.sessions.Sessions()))}
	}
}
