package orchestrator

import (
	"context"
	"fmt"
	"time"
)

// Shutdown refuses new turns, waits for those under way until ctx ends, and hands the rest off: with a snapshot store
// they are left in flight for whoever comes next, and their callers get ErrIndeterminate and lock.ErrHandoff. It returns
// when all calls have ended, with an error only if some have not: a function of the bot went on. Close the stores'
// clients after it.
func (o *Orchestrator[S]) Shutdown(ctx context.Context) error {
	idle := o.sessions.Close()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	o.sessions.HandOff()
	patience := time.NewTimer(3 * o.Limits.SettleTimeout) // a function ends, its turn is left, the session released
	defer patience.Stop()
	select {
	case <-idle:
		return nil
	case <-patience.C:
		return &Error{Op: "shutdown", Err: fmt.Errorf("%d calls have not ended", len(o.sessions.Sessions()))}
	}
}
