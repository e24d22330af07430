package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsontype"
)

// WithoutDefinition returns an Orchestrator of the bot with this name for a program that does not have its Definition:
// a console, or a command of operators. Package ops is made of it. A state is the JSON as it is stored. o has the
// stores of the bot: what an act would have to write, and has no store for, is not written.
//
// It looks, by Sessions, Turns, Turn, Runs, Inspect, Progress, Follow and Backlog. It acts, by Unpark, MakeDue,
// Abandon, Delete, SkipDelivery, Enqueue, Fork and Sweep. What would run the bot returns ErrNoDefinition: Execute,
// Stream, Put, Resume, Recover and Tool. End it by Shutdown.
//
// Definition.Respond makes the reply that the turn log has of a settled turn, and only a process with the Definition
// can. So Abandon of a run that has settled leaves its row to such a process, and Delete records the end without the
// reply.
func WithoutDefinition(
	name string, store checkpoint.Store, o *Options,
) (*Orchestrator[json.RawMessage], error) {
	if o == nil {
		o = new(Options)
	}
	faults := o.faults()
	if err := ids.Check("name", name); err != nil {
		faults = append(faults, err.Error())
	}
	if store == nil {
		faults = append(faults, "no checkpoint store")
	}
	if len(faults) > 0 {
		return nil, &Error{Op: "new", Err: errors.New(strings.Join(faults, "; "))}
	}
	anything := jsontype.MembersOf(reflect.TypeFor[json.RawMessage]())
	e := newEngine(identity{name: name, members: anything}, store, *o)
	e.respond = unanswered
	return &Orchestrator[json.RawMessage]{codec: codec[json.RawMessage]{engine: e}}, nil
}

// unanswered is the responder of an engine that has no Definition.
func unanswered(_ context.Context, _ string, _ checkpoint.Checkpoint, force bool) (json.RawMessage, error) {
	if force {
		return nil, ErrNoDefinition
	}
	return nil, &DriftError{Err: ErrNoDefinition}
}

// Unpark is Orchestrator.Unpark for a program that does not have the Definition: a command of operators. The name is
// that of the definition. o has the Snapshots, and the Ledger if the bot has one.
func Unpark(
	ctx context.Context, orchestrator, session string, store checkpoint.Store, o *Options,
) (unparked bool, err error) {
	if store == nil || o == nil || o.Snapshots == nil {
		return false, adminError("unpark", session, errors.New("no checkpoint store, or no Options.Snapshots"))
	}
	bot, err := WithoutDefinition(orchestrator, store, o)
	if err != nil {
		return false, adminError("unpark", session, err)
	}
	defer func() {
		bot.engine.close()
		<-bot.engine.sessions.Close()
		bot.engine.rest(ctx)
	}()
	return bot.Unpark(ctx, session)
}
