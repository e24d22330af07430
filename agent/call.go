package agent

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// protect turns a panic of a function of the program into an error.
func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &orchestrator.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// A calling runs a call of a turn.
type calling[C any] struct {
	agent *Agent[C]
	turn  *Turn[C]
	pure  context.Context // ends if somebody stops the turn
	alone bool            // it is the only call of its reply
	purse *purse          // of the children; nil is no limit
}

// guarded runs a call. A panic outside of its effect is a result for the model. After a panic within the effect the
// outcome is in doubt: then the error wraps the panic.
func (c calling[C]) guarded(ctx context.Context, o Open) (done called, err error) {
	defer func() { done.open = o }()
	err = protect(func() (err error) {
		done, err = c.call(ctx, &o)
		return err
	})
	_, panicked := err.(*orchestrator.PanicError) // as protect returns it
	if panicked && ctx.Err() == nil {
		text := c.agent.logged(logtext.Private(err))
		c.turn.Logger().ErrorContext(ctx, "tool panicked", "tool", o.Call.Name, "err", text)
		return failed("the tool failed"), nil
	}
	return done, err
}

func failed(text string) called { return called{result: &Result{text, true}} }

func succeeded(text string) called { return called{result: &Result{text, false}} }

// call runs a call, or says in o for whom it waits.
func (c calling[C]) call(ctx context.Context, o *Open) (called, error) {
	// An answer holds for the call also if a deploy has changed or removed the tool meanwhile.
	ans, given := c.turn.State.Answers[o.Call.ID]
	tool := c.agent.tools[o.Call.Name]
	switch {
	case o.Child != "": // the answers are those of the child
	case o.Asking != nil: // the tool hears the answer, also one that declines
	case given && ans.Kind == Client:
		return called{result: &Result{clip(ans.Result, maxResult), ans.Failed}}, nil
	case given && !ans.Approved:
		return failed(strings.TrimSuffix("not executed: refused. "+ans.Note, " ")), nil
	}
	if tool == nil {
		return failed("no such tool"), nil
	}
	if misfit := tool.misfit(o.Call.Args); misfit != "" {
		return failed("the arguments do not fit: " + misfit), nil
	}
	switch {
	case o.Asking != nil && tool.Run == nil:
		return failed("not executed: the tool has changed"), nil
	case c.agent.finishes(tool.Name) && !c.alone:
		return failed("call it alone, after the other results"), nil
	case c.agent.finishes(tool.Name):
		return succeeded("ok"), nil
	case tool.Child != nil:
		return c.child(ctx, o, tool)
	}
	switch {
	case o.Asking != nil: // whoever has to agree has agreed
	case !given && tool.waits(o.Call.Args):
		p := Pending{
			Call: o.Call, Kind: tool.Wait, Agent: c.agent.def.Name,
			Since: time.Now().UTC().Truncate(time.Millisecond), Otherwise: tool.Otherwise,
		}
		if tool.Until > 0 {
			p.Until = p.Since.Add(tool.Until)
		}
		o.Waits = []Pending{p}
		return called{}, nil
	case given && tool.Wait == Client:
		return failed("not executed: the tool has changed"), nil
	}
	if tool.Class == ledger.Pure {
		return c.read(ctx, o, tool)
	}
	return c.effect(ctx, o, tool)
}

// read runs a tool that changes nothing. Stop ends it.
func (c calling[C]) read(ctx context.Context, o *Open, tool *Tool) (called, error) {
	text, err := tool.Run(withCaller(c.pure, c.turn, o.Call, o.leg(c.turn.State.Answers)), o.Call)
	switch q, _ := asked(err); {
	case ctx.Err() != nil:
		return called{}, context.Cause(ctx)
	case err != nil && stopped(c.pure):
		return failed("stopped"), nil
	case q != nil:
		return c.asks(o, tool, inquiry{Question: *q}), nil
	case err != nil:
		return failed(clip(logtext.Text(err), maxResult)), nil
	}
	return succeeded(clip(text, maxResult)), nil
}

// A receipt is what the ledger keeps of an effect. The answer of a person, that it landed, has any result or none.
type receipt struct {
	Call, Key, Text string
	Failed          bool `json:",omitempty"`

	// Asks is what the tool has asked.
	Asks *inquiry `json:",omitempty"`
}

// UnmarshalJSON reads a receipt, or what a person says: a text, or anything else as JSON.
func (r *receipt) UnmarshalJSON(doc []byte) error {
	type plain receipt
	if json.Unmarshal(doc, (*plain)(r)) == nil && r.Key != "" {
		return nil
	}
	*r = receipt{}
	if json.Unmarshal(doc, &r.Text) != nil {
		r.Text = string(doc)
	}
	return nil
}

// effectOf returns what identifies the effect of a call, and how it is verified.
func effectOf[S any](t *orchestrator.Turn[S], tool *Tool, call Call, l leg) *orchestrator.OnceOptions[receipt] {
	o := &orchestrator.OnceOptions[receipt]{Class: tool.Class, Key: l.row, Args: call.Args, Settles: tool.Settles}
	if tool.Key != nil && l.row == "" {
		o.Key = tool.Key(call.Args)
	}
	if o.Key == "" {
		o.Each = l.each
	}
	if tool.Verify != nil {
		o.Verify = func(ctx context.Context, key string) (receipt, bool, error) {
			own := l.with(call, key)
			text, landed, err := tool.Verify(withCaller(ctx, t, own, l), own)
			return receipt{Call: call.ID, Key: key, Text: clip(text, maxResult)}, landed, err
		}
	}
	return o
}

// announce says which effects the calls of a reply begin with, so that the save of the reply issues them: those that
// run at once, and wait for nobody.
func (a *Agent[C]) announce(t *Turn[C]) {
	for _, o := range t.State.Open[:min(len(t.State.Open), a.fan)] {
		tool := a.tools[o.Call.Name]
		if tool == nil || tool.Run == nil || tool.Class == ledger.Pure || a.finishes(tool.Name) {
			continue
		}
		_ = protect(func() error { // what is wrong with the call is its result
			if tool.misfit(o.Call.Args) != "" || tool.waits(o.Call.Args) {
				return nil
			}
			return orchestrator.Ahead(t, phaseTools, tool.Name, effectOf(t, tool, o.Call, o.leg(nil)))
		})
	}
}

// runEffect runs a tool that changes something, once.
func runEffect[S any](
	ctx context.Context, t *orchestrator.Turn[S], tool *Tool, call Call, l leg,
) (called, error) {
	got, err := orchestrator.Once(ctx, t, tool.Name, func(ctx context.Context, key string) (receipt, error) {
		own := l.with(call, key)
		text, err := tool.Run(withCaller(ctx, t, own, l), own)
		r := receipt{Call: call.ID, Key: key, Text: clip(text, maxResult)}
		q, ran := asked(err)
		why := ""
		if q != nil {
			why = q.fault(maxQuestion)
		}
		switch failure, failed := errors.AsType[*ranError](err); {
		case q != nil && !ran && l.mute:
			return receipt{}, ledger.NotDone(q.error())
		case why != "" && !ran:
			return receipt{}, ledger.NotDone(errors.New(noneToAsk + why))
		case why != "":
			r.Text, r.Failed = clip(partOnly+why, maxResult), true
		case q != nil && !l.mute:
			r.Text, r.Failed = clip(q.error().Error(), maxResult), true
			r.Asks = &inquiry{*q, own.Key, ran}
		case failed:
			r.Text, r.Failed = clip(logtext.Text(failure), maxResult), true
		default:
			return r, err
		}
		return r, nil
	}, effectOf(t, tool, call, l))
	if err != nil {
		return called{}, err
	}
	if got == (receipt{}) {
		got.Text = "it was done, as a person says"
	}
	done := called{result: &Result{clip(got.Text, maxResult), got.Failed}}
	if done.effect = got.Key; got.Call != call.ID && got.Call != "" {
		done.result.Text = "[idempotent replay of " + got.Call + "] " + got.Text
	}
	done.asks = got.Asks
	return done, nil
}

// refusedEffect returns the result of an effect that certainly did not happen, or whose result was redacted. Any other
// error stops the turn.
func refusedEffect(err error) (called, error) {
	var doubt *orchestrator.InDoubtError
	switch {
	case errors.As(err, &doubt):
		if _, marked := errors.AsType[*doubtError](doubt.Err); marked && !doubt.Ask {
			asking := &orchestrator.InDoubtError{RunID: doubt.RunID, Effects: doubt.Effects, Ask: true, Err: doubt.Err}
			return called{}, asking
		}
		return called{}, err
	case errors.Is(err, ledger.ErrRedacted):
		return succeeded("it was done, and its result is not kept"), nil
	case errors.Is(err, ledger.ErrInvalid): // a key that is too long, say
		return failed(clip("not executed: "+logtext.Text(err), maxResult)), nil
	case ledger.IsNotDone(err):
		return failed(clip(logtext.Text(err), maxResult)), nil
	case errors.Is(err, ledger.ErrChanged):
		return failed("not executed: it was done before, with other arguments"), nil
	case errors.Is(err, ledger.ErrSkipped):
		return failed("not executed: a person has decided so"), nil
	}
	return called{}, err
}
