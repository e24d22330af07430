package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnlog"
)

// runTools runs the calls that are open, as far as they need nobody.
func (a *Agent[C]) runTools(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	if s.Phase == phaseDrop {
		return a.drop(ctx, t)
	}
	if err := a.move(ctx, t); err != nil {
		return a.unable(ctx, t, err)
	}
	i, err := a.wish(ctx, t)
	if err != nil {
		return a.unable(ctx, t, err)
	}
	if i != nil {
		a.interrupt(t, i)
		return nil
	}
	results, err := a.callAll(ctx, t)
	if err != nil {
		return err
	}
	return a.collect(ctx, t, results)
}

// drop answers all open calls as not executed, and lets the children do the same.
func (a *Agent[C]) drop(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	for _, o := range s.Open {
		tool := a.tools[o.Call.Name]
		if !o.Asked || tool == nil || tool.Child == nil {
			continue
		}
		_, err := tool.Child.serve(ctx, "drop "+o.Call.ID, o.Child, envelope{Op: opDrop})
		if err != nil && refused(err) == nil {
			return err
		}
	}
	if len(s.Open) > 0 {
		a.add(t, notExecuted(s.Open, "nobody has answered"))
	}
	s.Open, s.Answers, s.Status, s.Phase = nil, nil, Completed, ""
	a.spend(t)
	return nil
}

// A called is what a call has come to. Without a result it waits: for whom, the Open call says.
type called struct {
	result *Result
	effect string // the id of the effect, if it is one
	open   Open
}

// callAll runs the open calls, some at a time.
func (a *Agent[C]) callAll(ctx context.Context, t *Turn[C]) ([]called, error) {
	s := &t.State
	all := make([]called, len(s.Open))
	errs := make([]error, len(s.Open))
	inner, done := a.interruptible(ctx, t)
	defer done()
	share := a.share(t)
	var group sync.WaitGroup
	slots := make(chan struct{}, a.fan)
	for n, o := range s.Open {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			c := calling[C]{agent: a, turn: t, pure: inner, alone: len(all) == 1, share: share}
			all[n], errs[n] = c.guarded(ctx, o)
		})
	}
	group.Wait()
	return all, errors.Join(errs...)
}

// share returns what each child that is open may cost: an equal part of what is left. 0 is no limit.
func (a *Agent[C]) share(t *Turn[C]) float64 {
	left, limited := a.left(t)
	children := 0
	for _, o := range t.State.Open {
		if o.Child != "" && !o.Asked {
			children++
		}
	}
	if !limited || children == 0 {
		return 0
	}
	return max(left, 0) / float64(children)
}

// collect takes the results of the calls, in their order, and decides how the turn goes on.
func (a *Agent[C]) collect(ctx context.Context, t *Turn[C], all []called) error {
	s := &t.State
	m := message.Message{Role: roleTool}
	var open []Open
	var finished json.RawMessage
	for _, c := range all {
		if c.result == nil {
			if open = append(open, c.open); c.open.Child != "" {
				s.Children = with(s.Children, c.open.Child, c.open.Call.Name)
			}
			continue
		}
		call, r := c.open.Call, *c.result
		r.Text = clip(r.Text, 2*a.most/len(all))
		s.Answers = without(s.Answers, c.open.Waits)
		if a.finishes(call.Name) && !r.Failed {
			finished = call.Args
		}
		a.after(t, call, r)
		b := message.ToolResult(call.ID, r.Text, r.Failed)
		m.Blocks = append(m.Blocks, b)
		seen := map[string]any{"slotKey": call.ID, "message": b}
		if c.effect != "" {
			seen["effect"] = c.effect
		}
		if err := t.Record(ctx, turnlog.ToolReceived, seen); err != nil {
			return err
		}
	}
	partial := len(m.Blocks) > 0
	if partial {
		s.Acted = true
		a.add(t, m)
		a.show(t, m)
	}
	s.Open = open
	switch {
	case len(open) > 0:
		s.Phase, s.Status, s.Reason = "", Paused, s.why()
		if partial && s.Reason == ForClient {
			s.Reason = ForRest
		}
		a.spend(t)
	case finished != nil:
		s.Phase, s.Status, s.Result = "", Completed, finished
		a.spend(t)
	default:
		s.Phase = phaseModel
	}
	return nil
}

// without returns answers without those of calls that have their result.
func without(answers map[string]Answer, done []Pending) map[string]Answer {
	if len(done) == 0 {
		return answers
	}
	left := make(map[string]Answer, len(answers))
	for id, ans := range answers {
		left[id] = ans
	}
	for _, p := range done {
		delete(left, p.Call.ID)
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// after calls After. A panic in it does not undo the call, so it does not fail the turn.
func (a *Agent[C]) after(t *Turn[C], call Call, r Result) {
	if a.def.After == nil {
		return
	}
	err := protect(func() error { a.def.After(&t.State.Custom, call, r); return nil })
	if err != nil {
		t.Logger().Error("After panicked", "tool", call.Name, "err", logtext.Of(logtext.Private(err)))
	}
}

func (a *Agent[C]) finishes(tool string) bool {
	return a.def.Finish != nil && a.def.Finish.Name == tool
}
