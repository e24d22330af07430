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
		c.turn.Logger().ErrorContext(ctx, "tool panicked", "tool", o.Call.Name, "err", logtext.Of(logtext.Private(err)))
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
	case c.agent.finishes(tool.Name) && !c.alone:
		return failed("call it alone, after the other results"), nil
	case c.agent.finishes(tool.Name):
		return succeeded("ok"), nil
	case tool.Child != nil:
		return c.child(ctx, o, tool)
	}
	switch {
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
		return c.read(ctx, o.Call, tool)
	}
	return c.effect(ctx, o.Call, tool)
}

// read runs a tool that changes nothing. Stop ends it.
func (c calling[C]) read(ctx context.Context, call Call, tool *Tool) (called, error) {
	text, err := tool.Run(withCaller(c.pure, c.turn, call), call)
	switch {
	case ctx.Err() != nil:
		return called{}, context.Cause(ctx)
	case err != nil && stopped(c.pure):
		return failed("stopped"), nil
	case err != nil:
		return failed(clip(logtext.Text(err), maxResult)), nil
	}
	return succeeded(clip(text, maxResult)), nil
}

// A receipt is what the ledger keeps of an effect. The answer of a person, that it landed, has any result or none.
type receipt struct {
	Call, Key, Text string
	Failed          bool `json:",omitempty"`
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

// effect runs a tool that changes something, once.
func (c calling[C]) effect(ctx context.Context, call Call, tool *Tool) (called, error) {
	o := &orchestrator.OnceOptions[receipt]{Class: tool.Class, Each: call.ID, Args: call.Args, Settles: tool.Settles}
	if tool.Key != nil {
		if o.Key = tool.Key(call.Args); o.Key != "" {
			o.Each = ""
		}
	}
	with := func(key string) Call {
		own := call
		own.Key = key
		return own
	}
	if tool.Verify != nil {
		o.Verify = func(ctx context.Context, key string) (receipt, bool, error) {
			text, landed, err := tool.Verify(withCaller(ctx, c.turn, with(key)), with(key))
			return receipt{call.ID, key, clip(text, maxResult), false}, landed, err
		}
	}
	got, err := orchestrator.Once(ctx, c.turn, tool.Name, func(ctx context.Context, key string) (receipt, error) {
		text, err := tool.Run(withCaller(ctx, c.turn, with(key)), with(key))
		if ran, ok := errors.AsType[*ranError](err); ok {
			return receipt{call.ID, key, clip(logtext.Text(ran), maxResult), true}, nil
		}
		return receipt{call.ID, key, clip(text, maxResult), false}, err
	}, o)
	if err != nil {
		return refusedEffect(err)
	}
	if got == (receipt{}) {
		got.Text = "it was done, as a person says"
	}
	done := called{result: &Result{clip(got.Text, maxResult), got.Failed}}
	if done.effect = got.Key; got.Call != call.ID && got.Call != "" {
		done.result.Text = "[idempotent replay of " + got.Call + "] " + got.Text
	}
	return done, nil
}

// refusedEffect returns the result of an effect that certainly did not happen, or whose result was redacted. Any other
// error stops the turn.
func refusedEffect(err error) (called, error) {
	var doubt *orchestrator.InDoubtError
	switch {
	case errors.As(err, &doubt):
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
