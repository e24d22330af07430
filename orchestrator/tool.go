package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// A Tool offers the orchestrator to the model of another agent.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema

	// Call runs a turn and returns its reply. Its request id, and the name of a fresh session, derive from callID and
	// the run in ctx: the same call again gets the same result. Nothing in args chooses the session. The usage of the
	// child, its tokens and its parts, reach the turn that calls.
	//
	// If a callID was used in the same run for other args, the error is ErrRequestReused and names the callID. This
	// holds after a crash, in Deliver, and in branches that run at once.
	Call func(ctx context.Context, callID string, args json.RawMessage) (string, error)

	// Ask is Call, with more than the text of the reply.
	Ask func(ctx context.Context, callID string, args json.RawMessage) (*ToolReply, error)
}

// A ToolReply is the settled turn of a child.
type ToolReply struct {
	// Text is the reply, made by the reply function of Tool.
	Text           string
	State          json.RawMessage // of the child's session
	Session, RunID string
	Turn           int
	Usage          Usage

	// Replayed says that the call was answered before, and that nothing ran.
	Replayed bool
}

// toolParameters is the JSON Schema of the args that a model gives.
const toolParameters = `{
	"type": "object",
	"properties": {"input": {
		"type": "string",
		"description": "What to ask or tell, in plain words, with all that is needed to answer."
	}},
	"required": ["input"],
	"additionalProperties": false
}`

// Tool returns a Tool whose calls answer with reply; if reply is nil, with the state as JSON. session chooses the
// session of a call. If session is nil, each call opens a fresh session, named for the session that calls
// ("s-1/refunds/9f2c…"). So the fresh session can be found and deleted with the caller's. If session is nil, a call
// from outside a turn is ErrNoSession: nothing would tell the users of one callID apart.
//
// The context of Call is the context of the turn: its deadline, its end and its values reach the child. A parent that
// is resumed makes the same call. The child returns its settled turn, or finishes its run.
func (o *Orchestrator[S]) Tool(
	name, description string, reply func(*Result[S]) string, session func(context.Context) (string, error),
) Tool {
	ask := func(ctx context.Context, callID string, args json.RawMessage) (*ToolReply, error) {
		answer, err := o.askTool(ctx, name, callID, args, session)
		var said *ToolReply
		if err == nil {
			err = o.call(ctx, func() (err error) { said, err = toolReply(answer, reply); return err })
		}
		if err != nil {
			return nil, &Error{Op: "tool", Err: fmt.Errorf("%s: %w", name, err)}
		}
		return said, nil
	}
	call := func(ctx context.Context, callID string, args json.RawMessage) (string, error) {
		said, err := ask(ctx, callID, args)
		if err != nil {
			return "", err
		}
		return said.Text, nil
	}
	return Tool{Name: name, Description: description, Parameters: json.RawMessage(toolParameters), Call: call, Ask: ask}
}

// call calls a function of the program that Tool was given.
func (o *Orchestrator[S]) call(ctx context.Context, fn func() error) error {
	return logtext.Private(o.engine.functions.protect(ctx, fn))
}

func toolReply[S any](res *Result[S], reply func(*Result[S]) string) (*ToolReply, error) {
	state, err := encode(&res.State)
	if err != nil {
		return nil, err
	}
	said := &ToolReply{
		Text: string(state), State: state, Session: res.Session, RunID: res.RunID, Turn: res.Turn,
		Usage: res.Usage, Replayed: res.Replayed,
	}
	if reply != nil {
		said.Text = reply(res)
	}
	return said, nil
}

// askTool runs the child's turn.
func (o *Orchestrator[S]) askTool(
	ctx context.Context, tool, callID string, args json.RawMessage, session func(context.Context) (string, error),
) (*Result[S], error) {
	text, err := toolInput(callID, args)
	if err != nil {
		return nil, err
	}
	caller := owner.ScopeIn(ctx)
	run := caller.Run()
	id := toolID(run, tool, callID)
	var in string
	switch {
	case session != nil:
		if err = o.call(ctx, func() (err error) { in, err = session(ctx); return err }); err != nil {
			return nil, err
		}
	case run == "":
		return nil, ErrNoSession
	default:
		in = toolSession(caller.Session(), tool, id)
	}
	said := Input{RequestID: id, Text: text, Origin: FromTool}
	line, effects := lineIn(ctx), o.engine.ledger != nil
	first := true
	if line != nil {
		said.By = line.by
		if first, err = line.meter.called(id, callID, args); err != nil {
			return nil, err
		}
		if err := line.world.toolStarts(ctx, line, effects); err != nil {
			return nil, err
		}
	}
	res, err := o.Execute(ctx, in, said, tokensTo(line))
	if line != nil {
		over := err != nil && !unfinished(err)
		line.meter.answered(id, first, usageOf(res, err), res != nil && res.Replayed, over)
		err = line.world.toolEnds(id, effects, first, err)
	}
	if errors.Is(err, ErrRequestReused) {
		err = reusedCall(callID, err)
	}
	return res, err
}

// reusedCall adds to err the id of a call that was used before, for other args.
func reusedCall(callID string, err error) error { return fmt.Errorf("call id %q: %w", callID, err) }

// toolInput returns the input in the args of a model.
func toolInput(callID string, args json.RawMessage) (string, error) {
	var said struct{ Input *string }
	if err := json.Unmarshal(args, &said); err != nil {
		return "", &InputError{"args", err.Error()}
	}
	if said.Input == nil {
		return "", &InputError{"args", "input is missing"}
	}
	if callID == "" {
		return "", &InputError{"call id", "empty"}
	}
	return *said.Input, nil
}

// tokensTo passes the tokens and parts of a child to the listeners of its parent.
func tokensTo(l *line) *CallOptions {
	if l == nil {
		return nil
	}
	return &CallOptions{OnEvent: func(ev Event) {
		if ev.Kind == Token || ev.Kind == Part {
			l.emit(Event{Kind: ev.Kind, Delta: ev.Delta, Data: ev.Data})
		}
	}}
}

// usageOf returns the usage of a child, from its result or from its error.
func usageOf[S any](res *Result[S], err error) Usage {
	if res != nil {
		return res.Usage
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Usage
	}
	return Usage{}
}

// called notes a call of a tool by this run, and reports whether it is the first call with its id.
func (m *meter) called(id, callID string, args json.RawMessage) (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := json.RawMessage(compact(args))
	before, known := m.calls[id]
	if known && string(before) != string(asked) {
		return false, reusedCall(callID, ErrRequestReused)
	}
	if m.calls == nil {
		m.calls = make(map[string]json.RawMessage)
	}
	m.calls[id] = asked
	return !known, nil
}

// answered counts the usage of a child, which grows from one call with an id to the next. What an earlier call has
// counted does not count again, whichever process made it. failed says that the run of the child is over: the next call
// begins it anew.
func (m *meter) answered(id string, first bool, u Usage, replayed, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, counted := m.counted[id]
	if replayed && !first && !counted { // an earlier iteration has counted it
		return
	}
	u = u.atLeast(before)
	m.plus(u.minus(before))
	if failed {
		delete(m.counted, id)
		return
	}
	if m.counted == nil {
		m.counted = make(map[string]Usage)
	}
	m.counted[id] = u
}

// toolID names a call of a tool by the run that makes it.
func toolID(run, tool, callID string) string { return digest(run, tool, callID)[:idLen] }

// maxSession is the longest name of a session, in bytes.
const maxSession = 512

// toolSession names a fresh session after the session that calls, as far as there is room.
func toolSession(parent, tool, id string) string {
	room := maxSession - len(id) - 1
	name := strings.ToValidUTF8(cut(parent+"/"+tool, room), "")
	return cmp.Or(name, "tool") + "/" + id
}

func cut(text string, most int) string { return text[:min(len(text), most)] }
