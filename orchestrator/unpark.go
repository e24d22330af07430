package orchestrator

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ids"
)

// Unpark is Orchestrator.Unpark for a program that does not have the Definition: a command of operators. The name is
// that of the definition. o has the Snapshots, and the Ledger if the bot has one.
func Unpark(
	ctx context.Context, orchestrator, session string, store checkpoint.Store, o *Options,
) (unparked bool, err error) {
	if store == nil || o == nil || o.Snapshots == nil {
		return false, adminError("unpark", session, errors.New("no checkpoint store, or no Options.Snapshots"))
	}
	if err = ids.Check("name", orchestrator); err == nil {
		err = checkSession(session)
	}
	if err != nil {
		return false, adminError("unpark", session, err)
	}
	e := newEngine(identity{name: orchestrator}, store, *o)
	defer func() {
		e.close()
		<-e.sessions.Close()
		e.rest(ctx)
	}()
	unparked, err = e.unpark(ctx, session)
	return unparked, adminError("unpark", session, err)
}
