package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// An Other is an agent, whatever its C. Only this package implements it.
type Other interface {
	Name() string

	// serve runs a turn of a session for a turn of another agent. The same call again gets the same answer.
	serve(ctx context.Context, call, session string, env envelope) (*childTurn, error)

	// stands returns how a session stands by its newest turn.
	stands(ctx context.Context, session string) (*childTurn, error)

	remove(ctx context.Context, session string) error
}

// A childTurn is a settled turn of another agent.
type childTurn struct {
	text   string
	failed bool
	waits  []Pending
}

func (s *State[C]) childTurn() *childTurn {
	text := s.Output
	if s.Result != nil {
		text = string(s.Result)
	}
	if text == "" && s.Reason != "" {
		text = string(s.Reason)
	}
	return &childTurn{text, s.Status != Completed, s.missing()}
}

func (a *Agent[C]) serve(ctx context.Context, call, session string, env envelope) (*childTurn, error) {
	raw, err := json.Marshal(env)
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(childArgs{string(raw)})
	if err != nil {
		return nil, err
	}
	in := func(context.Context) (string, error) { return session, nil }
	said := func(*orchestrator.Result[State[C]]) string { return "" } // the state says it
	reply, err := a.bot.Tool(a.def.Name, "", said, in).Ask(ctx, call, args)
	if err != nil {
		return nil, err
	}
	var s State[json.RawMessage]
	if err := json.Unmarshal(reply.State, &s); err != nil {
		return nil, err
	}
	return s.childTurn(), nil
}

func (a *Agent[C]) stands(ctx context.Context, session string) (*childTurn, error) {
	s, _, err := a.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	return s.childTurn(), nil
}

func (a *Agent[C]) remove(ctx context.Context, session string) error { return a.Delete(ctx, session) }

// refused returns the refusal of an input, or nil.
func refused(err error) *orchestrator.InputError {
	in, _ := errors.AsType[*orchestrator.InputError](err)
	return in
}

// child runs a turn of another agent: its first one, or those that take the answers that it waits for.
func (c calling[C]) child(ctx context.Context, o *Open, tool *Tool) (called, error) {
	now, err := c.askChild(ctx, o, tool)
	if err != nil {
		if in := refused(err); in != nil && ctx.Err() == nil {
			return failed("the other agent refuses: " + in.Error()), nil
		}
		return called{}, err
	}
	if o.Asked, o.Waits = true, now.waits; len(now.waits) > 0 {
		return called{}, nil
	}
	return called{result: &Result{clip(now.text, maxResult), now.failed}}, nil
}

func (c calling[C]) askChild(ctx context.Context, o *Open, tool *Tool) (now *childTurn, err error) {
	if !o.Asked {
		args, err := decode[childArgs](o.Call.Args)
		if err != nil {
			return nil, err
		}
		root := c.turn.State.Root
		if root == "" {
			root = c.turn.Session
		}
		return tool.Child.serve(ctx, o.Call.ID, o.Child, envelope{
			Op: opSay, Text: args.Input, Parent: c.turn.Session, Root: root, Most: c.share,
		})
	}
	for i, p := range slices.Clone(o.Waits) {
		ans, given := c.turn.State.Answers[p.Call.ID]
		if !given {
			continue
		}
		id := fmt.Sprintf("answer %s %d", p.Call.ID, i)
		now, err = tool.Child.serve(ctx, id, o.Child, envelope{Op: opAnswer, Call: p.Call.ID, Answer: &ans})
		if refused(err) != nil { // the child was answered in its own session
			now, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if now == nil {
		return tool.Child.stands(ctx, o.Child)
	}
	return now, nil
}

// lookAtChildren takes note of children that were answered in their own sessions.
func (a *Agent[C]) lookAtChildren(ctx context.Context, s *State[C]) error {
	s.Open = slices.Clone(s.Open)
	for i := range s.Open {
		o := &s.Open[i]
		tool := a.tools[o.Call.Name]
		if !o.Asked || tool == nil || tool.Child == nil {
			continue
		}
		now, err := tool.Child.stands(ctx, o.Child)
		if err != nil {
			return err
		}
		o.Waits = now.waits
	}
	return nil
}
