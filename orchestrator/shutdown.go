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
	o.engine.close()
	idle := o.engine.sessions.Close()
	select {
	case <-idle:
		o.engine.rest(ctx)
		return nil
	case <-ctx.Done():
	}
	o.engine.sessions.HandOff()
	// A function ends, its turn is left, and the session is released.
	patience := time.NewTimer(3 * o.engine.options.Limits.SettleTimeout)
	defer patience.Stop()
	select {
	case <-idle:
		o.engine.rest(ctx)
		return nil
	case <-patience.C:
		return &Error{Op: "shutdown", Err: fmt.Errorf("%d calls have not ended", len(o.engine.sessions.Sessions()))}
	}
}

// Serving returns a context that ends when Shutdown is called, with the cause ErrShuttingDown. It is for readers that
// would outlast the turns, such as those of Follow: Shutdown does not wait for them.
func (o *Orchestrator[S]) Serving() context.Context { return o.engine.serving }

// lastEvents is how long Shutdown waits at least until the last events are appended to the stream store.
const lastEvents = time.Second

// rest tells others that this process owns no session any more, and waits for the last events until ctx ends.
func (e *engine) rest(ctx context.Context) {
	e.sessions.Rest()
	if e.listeners.shows == nil {
		return
	}
	if ctx.Err() != nil {
		least, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastEvents)
		defer cancel()
		ctx = least
	}
	e.listeners.shows.finish(ctx)
}
