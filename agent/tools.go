package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// toolsOrWait runs the calls that are open. If it cannot, and an effect may have happened, the run stays in flight and
// is tried again. A turn that fails, or settles with its calls open, forgets the effect, and the next turn repeats it.
func (a *Agent[C]) toolsOrWait(ctx context.Context, t *Turn[C]) error {
	if t.State.Phase == phaseDrop {
		return a.drop(ctx, t)
	}
	harmless := !a.happened(t) && !slices.ContainsFunc(t.State.Open, func(o Open) bool {
		tool := a.tools[o.Call.Name]
		return tool != nil && (tool.Child != nil || tool.Run != nil && tool.Class != ledger.Pure)
	})
	err := a.runTools(ctx, t)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil || harmless || errors.Is(err, ledger.ErrInDoubt) {
		return err
	}
	return &orchestrator.InDoubtError{RunID: t.RunID, Err: err}
}

// runTools runs the calls that are open, as far as they need nobody.
func (a *Agent[C]) runTools(ctx context.Context, t *Turn[C]) error {
	if err := a.move(ctx, t); err != nil {
		return err
	}
	i, err := a.wish(ctx, t)
	if err != nil {
		return err
	}
	var only map[string]bool
	if i != nil {
		if only, err = a.began(ctx, t); err != nil {
			return err
		}
		if len(only) == 0 {
			if err := a.stopDown(ctx, t, whyStopped); err != nil {
				return err
			}
			a.interrupt(t, i)
			return nil
		}
	}
	results, halted, err := a.callAll(ctx, t, only)
	if err != nil {
		return err
	}
	return a.collect(ctx, t, results, halted || i != nil)
}

// stopDown stops the children that are at work, and drops what they wait for.
func (a *Agent[C]) stopDown(ctx context.Context, t *Turn[C], why string) error {
	for _, o := range t.State.Open {
		tool := a.tools[o.Call.Name]
		if o.Child == "" || tool == nil || tool.Child == nil {
			continue
		}
		err := tool.Child.halt(ctx, o.Child, "", why)
		if err == nil && o.Asked {
			_, err = tool.Child.serve(ctx, "drop "+o.Call.ID, o.Child, envelope{Op: opDrop})
		}
		if err != nil && refused(err) == nil {
			return err
		}
	}
	return nil
}

// began returns the open calls whose effects an earlier attempt at this iteration has begun, by id. They may have
// happened, so that they come to their end, also if the turn is to stop. What is Issued now was issued by the save of
// the reply, and has not begun: what an earlier owner has left Issued became Unknown when the run was adopted.
func (a *Agent[C]) began(ctx context.Context, t *Turn[C]) (map[string]bool, error) {
	if a.stores.Ledger == nil {
		return nil, nil
	}
	began := make(map[string]bool)
	for e, err := range a.stores.Ledger.Effects(ctx, ledger.Query{RunID: t.RunID, Brief: true}) {
		if err != nil {
			return nil, err
		}
		if e.State == ledger.Issued {
			continue
		}
		for _, o := range t.State.Open {
			tool := a.tools[o.Call.Name]
			if tool == nil || tool.Name != e.Name {
				continue
			}
			_ = protect(func() error { // without a key the effect has not begun
				l := o.leg(t.State.Answers)
				began[o.Call.ID] = began[o.Call.ID] || e.Each == l.each || e.Key != "" && e.Key == l.row ||
					e.Key != "" && tool.Key != nil && tool.Key(o.Call.Args) == e.Key
				return nil
			})
		}
	}
	return began, nil
}

// drop answers all open calls as not executed, and lets the children do the same.
func (a *Agent[C]) drop(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	if err := a.stopDown(ctx, t, whyNobody); err != nil {
		return err
	}
	if len(s.Open) > 0 {
		a.add(t, notExecuted(s.Open, whyNobody))
	}
	s.Open, s.Answers, s.Status, s.Phase = nil, nil, Completed, ""
	a.spend(t)
	return nil
}

// A called is what a call has come to. Without a result it waits: for whom, the Open call says.
type called struct {
	result *Result
	effect string // the id of the effect, if it is one
	asks   *inquiry
	open   Open
}

// callAll runs the open calls, some at a time. If only is not nil, it leaves the others. halted says that somebody has
// stopped the turn meanwhile.
func (a *Agent[C]) callAll(
	ctx context.Context, t *Turn[C], only map[string]bool,
) (all []called, halted bool, err error) {
	s := &t.State
	all = make([]called, len(s.Open))
	errs := make([]error, len(s.Open))
	inner, done := a.interruptible(ctx, t)
	defer done()
	c := calling[C]{agent: a, turn: t, pure: inner, alone: len(all) == 1, purse: a.purse(t)}
	var group sync.WaitGroup
	slots := make(chan struct{}, a.fan)
	for n, o := range s.Open {
		if only != nil && !only[o.Call.ID] {
			all[n].open = o
			continue
		}
		if o.Child != "" && c.purse != nil {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			all[n], errs[n] = c.guarded(ctx, o)
		})
	}
	if c.purse != nil && only == nil {
		group.Go(func() {
			for n, o := range s.Open {
				if o.Child == "" {
					continue
				}
				if all[n], errs[n] = c.guarded(ctx, o); errs[n] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return all, stopped(inner), errors.Join(errs...)
}

// collect takes the results of the calls, in their order, and decides how the turn goes on. halted says that somebody
// has stopped it: the results stay.
func (a *Agent[C]) collect(ctx context.Context, t *Turn[C], all []called, halted bool) error {
	s := &t.State
	m := message.Message{Role: roleTool}
	var open []Open
	var finished json.RawMessage
	for n, c := range all {
		if was := s.Open[n].Asking; was != nil && c.open.Asking != was { // the tool has got the answer
			s.Answers = without(s.Answers, s.Open[n].Waits)
		}
		if c.result == nil {
			open = append(open, c.open)
			continue
		}
		call, r := c.open.Call, *c.result
		r.Text = clip(r.Text, 2*a.most/len(all))
		s.Answers = without(s.Answers, append(slices.Clone(c.open.Waits), Pending{Call: call}))
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
		if err := t.RecordSoon(ctx, turnlog.ToolReceived, seen); err != nil {
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
	case halted && finished == nil:
		if err := a.stopDown(ctx, t, whyStopped); err != nil {
			return err
		}
		a.halted(ctx, t)
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
		t.Logger().Error("After panicked", "tool", call.Name, "err", a.logged(logtext.Private(err)))
	}
}

func (a *Agent[C]) finishes(tool string) bool {
	return a.def.Finish != nil && a.def.Finish.Name == tool
}
