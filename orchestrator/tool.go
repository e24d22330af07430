package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// A Tool is the orchestrator for another agent's model.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema
	// Call runs a turn. Its request id, and a fresh session's name, derive from callID and the run in ctx: the same call
	// again gets the same result. Nothing in args chooses the session.
	Call func(ctx context.Context, callID string, args json.RawMessage) (string, error)
}

// toolParameters is what a model has to say.
const toolParameters = `{
	"type": "object",
	"properties": {"input": {"type": "string", "description": "What to ask or tell, in plain words, with all that is needed to answer."}},
	"required": ["input"],
	"additionalProperties": false
}`

// Tool answers with reply. session binds it to one session; nil opens a fresh one for each call.
//
// The context of Call is that of the turn: its deadline, its end and its values reach the child, and a parent that is resumed
// makes the same call, which the child answers from its record, or finishes.
func (o *Orchestrator[S]) Tool(name, description string, reply func(*Result[S]) string, session func(context.Context) (string, error)) Tool {
	call := func(ctx context.Context, callID string, args json.RawMessage) (string, error) {
		fail := func(err error) (string, error) { return "", &Error{Op: "tool", Err: fmt.Errorf("%s: %w", name, err)} }
		var said struct{ Input *string }
		if err := json.Unmarshal(args, &said); err != nil {
			return fail(&InputError{"args", err.Error()})
		}
		if said.Input == nil {
			return fail(&InputError{"args", "input is missing"})
		}
		if callID == "" {
			return fail(&InputError{"call id", "empty"})
		}
		id := toolID(ctx, name, callID)
		in := "tool-" + id
		if session != nil {
			var err error
			if in, err = session(ctx); err != nil {
				return fail(err)
			}
		}
		res, err := o.Execute(ctx, in, Input{RequestID: id, Text: *said.Input}, nil)
		if err != nil {
			return fail(err)
		}
		return reply(res), nil
	}
	return Tool{Name: name, Description: description, Parameters: json.RawMessage(toolParameters), Call: call}
}

// toolID names a call of a tool by the run that makes it.
func toolID(ctx context.Context, tool, callID string) string {
	run := ""
	if held := heldIn(ctx); held != nil && held.run.Load() != nil {
		run = *held.run.Load()
	}
	h := sha256.New()
	for _, part := range []string{run, tool, callID} {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
