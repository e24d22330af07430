package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An Other is an agent, whatever its C. Only this package implements it.
type Other interface {
	Name() string

	// serve runs a turn of a session for a turn of another agent. The same call again gets the same answer.
	serve(ctx context.Context, call, session string, env envelope) (*childTurn, error)

	// stands returns how a session stands by its newest turn.
	stands(ctx context.Context, session string) (*childTurn, error)

	// halt stops a run of a session, if it is in flight; "" is any.
	halt(ctx context.Context, session, run, reason string) error

	// atWork reports whether a run of the session or of one of its children is in flight.
	atWork(ctx context.Context, session string) (bool, error)

	remove(ctx context.Context, session string) error

	// removeUnder removes the sessions of children whose names begin with prefix.
	removeUnder(ctx context.Context, prefix string) error
}

// A childTurn is a settled turn of another agent.
type childTurn struct {
	text   string
	failed bool
	waits  []Pending
	left   float64            // of its part of a budget
	spent  orchestrator.Usage // by its session
	used   orchestrator.Usage // by the turns that were served for it, which the engine has counted
}

func (s *State[C]) childTurn() *childTurn {
	text := s.Output
	if s.Result != nil {
		text = string(s.Result)
	}
	failed := s.Status != Completed
	if text == "" && s.Reason != "" {
		text = string(s.Reason)
	} else if text == "" && s.Status == Interrupted {
		text = "stopped"
	} else if text == "" { // its calls were dropped, say
		text, failed = "no answer", true
	}
	now := &childTurn{text: text, failed: failed, waits: s.missing(), spent: s.Spent}
	if s.Most > 0 {
		now.left = max(s.Most-s.Spent.Cost, 0)
	}
	return now
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
	now := s.childTurn()
	now.used = reply.Usage
	return now, nil
}

func (a *Agent[C]) stands(ctx context.Context, session string) (*childTurn, error) {
	s, _, err := a.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	return s.childTurn(), nil
}

func (a *Agent[C]) remove(ctx context.Context, session string) error { return a.Delete(ctx, session) }

func (a *Agent[C]) removeUnder(ctx context.Context, prefix string) error {
	if len(prefix)+20 > 512 { // then childSession leaves the prefix out
		return nil
	}
	remove := func(session string, err error) error {
		if err != nil || len(session) != len(prefix)+20 || !childName.MatchString(session) {
			return err
		}
		return a.Delete(ctx, session)
	}
	q := checkpoint.SessionQuery{Orchestrator: a.def.Name, Prefix: prefix}
	for session, err := range a.stores.Checkpoints.Sessions(ctx, q) {
		if err := remove(session, err); err != nil {
			return err
		}
	}
	first := snapshot.Query{Key: snapshot.Key{Orchestrator: a.def.Name}, After: prefix, Brief: true}
	for r, err := range a.stores.Snapshots.Runs(ctx, first) { // those whose first turn is in flight
		if r.Session == "" {
			return err
		}
		if !strings.HasPrefix(r.Session, prefix) {
			break
		}
		if err := remove(r.Session, nil); err != nil {
			return err
		}
	}
	return nil
}

// refused returns the refusal of an input, or nil.
func refused(err error) *orchestrator.InputError {
	in, _ := errors.AsType[*orchestrator.InputError](err)
	return in
}

// over reports whether err says that the turn of a child has failed. Nothing of it is in flight, and what it may have
// done is its own. The turn that has called it goes on: another call of the same reply may have changed the world.
func over(err error) bool {
	for _, open := range []error{
		orchestrator.ErrIndeterminate, orchestrator.ErrSuspended, orchestrator.ErrParked, ledger.ErrInDoubt,
	} {
		if errors.Is(err, open) {
			return false
		}
	}
	for e := (*orchestrator.Error)(nil); errors.As(err, &e); err = e.Err {
		if slices.Contains([]string{"begin", "route", "intent"}, e.Op) {
			return true
		}
	}
	return false
}

// child runs a turn of another agent: its first one, or those that take the answers that it waits for.
func (c calling[C]) child(ctx context.Context, o *Open, tool *Tool) (called, error) {
	if c.purse != nil {
		ctx = context.WithValue(ctx, grantKey{}, c.purse.grant(o))
	}
	done := c.stopWith(ctx, o, tool)
	now, err := c.askChild(ctx, o, tool)
	done()
	if err != nil {
		switch in := refused(err); {
		case ctx.Err() != nil:
		case in != nil:
			return failed("the other agent refuses: " + in.Error()), nil
		case over(err) && !o.Asked: // one that waits would wait on, and its answers would be lost
			text := c.agent.logged(logtext.Private(err))
			c.turn.Logger().WarnContext(ctx, "child has failed", "tool", tool.Name, "err", text)
			return failed("the other agent has failed"), nil
		}
		return called{}, err
	}
	if u := uncounted(now, o.Counted); o.Asked && u != (orchestrator.Usage{}) {
		c.turn.AddUsage(u)
	}
	o.Asked, o.Waits, o.Left, o.Counted = true, tool.bound(now.waits), now.left, now.spent
	if len(now.waits) > 0 {
		if c.purse != nil {
			c.purse.held += now.left
		}
		return called{}, nil
	}
	return called{result: &Result{clip(now.text, maxResult), now.failed}}, nil
}

// stopWith stops the child whenever somebody stops the turn, until done is called. A child that begins its turn only
// then is stopped too.
func (c calling[C]) stopWith(ctx context.Context, o *Open, tool *Tool) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-c.pure.Done():
		}
		for stopped(c.pure) {
			err := tool.Child.halt(ctx, o.Child, "", "the session that asks was stopped")
			if err != nil && ctx.Err() == nil {
				c.turn.Logger().WarnContext(ctx, "child not stopped; it is tried again", "err", logtext.Of(err))
			}
			if keeper.Sleep(ctx, lookEvery) != nil {
				return
			}
		}
	})
	return func() { cancel(); watching.Wait() }
}

func (c calling[C]) askChild(ctx context.Context, o *Open, tool *Tool) (now *childTurn, err error) {
	if !o.Asked {
		args, err := decode[childArgs](o.Call.Args)
		if err != nil {
			return nil, err
		}
		above := append(slices.Clone(c.turn.State.Above), c.agent.def.Name)
		if name := tool.Child.Name(); slices.Contains(above, name) {
			return nil, refuse("agent", fmt.Errorf("%s waits for this call: %w", name, orchestrator.ErrReentrant))
		}
		root := c.turn.State.Root
		if root == "" {
			root = c.turn.Session
		}
		return tool.Child.serve(ctx, o.Call.ID, o.Child, envelope{
			Op: opSay, Text: args.Input, Parent: c.turn.Session, Root: root, Above: above,
		})
	}
	var used orchestrator.Usage
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
		if now != nil {
			used = plus(used, now.used)
		}
	}
	if now == nil {
		now, err = tool.Child.stands(ctx, o.Child)
	}
	if err == nil {
		now.used = used
	}
	return now, err
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
		o.Waits = tool.bound(now.waits)
	}
	return nil
}
