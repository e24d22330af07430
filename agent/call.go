package agent

import (
	"context"
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
	share float64         // what a child may cost; 0 is no limit
}

// guarded runs a call. A panic outside of its effect is a result for the model.
func (c calling[C]) guarded(ctx context.Context, o Open) (done called, err error) {
	defer func() { done.open = o }()
	var panicked *orchestrator.PanicError
	err = protect(func() (err error) {
		done, err = c.call(ctx, &o)
		return err
	})
	if errors.As(err, &panicked) && ctx.Err() == nil {
		c.turn.Logger().ErrorContext(ctx, "tool panicked", "tool", o.Call.Name, "err", logtext.Of(logtext.Private(err)))
		return failed("the tool failed"), nil
	}
	return done, err
}

func failed(text string) called { return called{result: &Result{text, true}} }

func succeeded(text string) called { return called{result: &Result{text, false}} }

// call runs a call, or says in o for whom it waits.
func (c calling[C]) call(ctx context.Context, o *Open) (called, error) {
	tool := c.agent.tools[o.Call.Name]
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
	if tool.waits(o.Call.Args) {
		ans, given := c.turn.State.Answers[o.Call.ID]
		switch {
		case !given:
			o.Waits = []Pending{{
				Call: o.Call, Kind: tool.Wait, Agent: c.agent.def.Name,
				Since: time.Now().UTC().Truncate(time.Millisecond),
			}}
			return called{}, nil
		case tool.Wait == Client:
			return called{result: &Result{clip(ans.Result, maxResult), ans.Failed}}, nil
		case !ans.Approved:
			return failed(strings.TrimSuffix("not executed: refused. "+ans.Note, " ")), nil
		}
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

// A receipt is what the ledger keeps of an effect.
type receipt struct{ Call, Key, Text string }

// effect runs a tool that changes something, once.
func (c calling[C]) effect(ctx context.Context, call Call, tool *Tool) (called, error) {
	o := &orchestrator.OnceOptions[receipt]{Class: tool.Class, Each: call.ID, Args: call.Args}
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
			return receipt{call.ID, key, clip(text, maxResult)}, landed, err
		}
	}
	got, err := orchestrator.Once(ctx, c.turn, tool.Name, func(ctx context.Context, key string) (receipt, error) {
		text, err := tool.Run(withCaller(ctx, c.turn, with(key)), with(key))
		return receipt{call.ID, key, clip(text, maxResult)}, err
	}, o)
	if err != nil {
		return refusedEffect(err)
	}
	done := succeeded(got.Text)
	if done.effect = got.Key; got.Call != call.ID && got.Call != "" {
		done.result.Text = "[idempotent replay of " + got.Call + "] " + got.Text
	}
	return done, nil
}

// refusedEffect returns the result of an effect that certainly did not happen. Any other error stops the turn.
func refusedEffect(err error) (called, error) {
	var doubt *orchestrator.InDoubtError
	switch {
	case errors.As(err, &doubt):
		return called{}, err
	case ledger.IsNotDone(err):
		return failed(clip(logtext.Text(err), maxResult)), nil
	case errors.Is(err, ledger.ErrChanged):
		return failed("not executed: it was done before, with other arguments"), nil
	case errors.Is(err, ledger.ErrSkipped):
		return failed("not executed: a person has decided so"), nil
	}
	return called{}, err
}

// maxResult is how many bytes of a result the model sees.
const maxResult = 1 << 20

// clip cuts a text, and says so.
func clip(text string, most int) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " [cut: there was more]"
}
