package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Loop runs a loop of models and tools that is not the agent's own, such as that of another library, in the turn t of
// any bot. The library calls a model and tools through its own interfaces. An adapter of a few lines calls Recorded and
// Once there, with the context that run has got. The bot needs a Ledger.
//
// After a crash run begins anew. Recorded and Once return what they have returned before, so the loop comes to where it
// was, without asking and without paying. This holds if the loop asks the same again. What is different each time, such
// as the time of day in a prompt, makes another question of it: then the model is asked, and its calls are other ones.
// Take such a value from the turn, or give tools a Key. A retry of the intent, and the same request id again, go on in
// the same way.
//
// If the outcome of an effect is unknown, or the ledger does not answer, the context of run ends. Recorded and Once
// then return the same error to all callers, and so does Loop, whatever run returns. Return it from the intent: a
// library that takes it for the result of a tool cannot go on and pay again.
func Loop[S any](ctx context.Context, t *orchestrator.Turn[S], run func(ctx context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &loop{end: cancel, log: t.Logger(), usage: t.AddUsage, calls: make(map[string]*sameCall)}
	l.record = func(
		ctx context.Context, name, each string, fn func(context.Context) (memo, error),
	) (memo, error) {
		return orchestrator.Once(ctx, t, name, func(ctx context.Context, _ string) (memo, error) { return fn(ctx) },
			&orchestrator.OnceOptions[memo]{
				Class: ledger.Pure, Each: each, KeepOnRetry: true,
				Usage: func(r memo) orchestrator.Usage { return r.Usage },
			})
	}
	l.effect = func(ctx context.Context, tool *Tool, call Call, each string) (called, error) {
		return runEffect(ctx, t, tool, call, leg{each: each, mute: true})
	}
	l.read = func(ctx context.Context, tool *Tool, call Call) (string, error) {
		return tool.Run(withCaller(ctx, t, call, leg{}), call)
	}
	err := run(context.WithValue(inner, loopKey{}, l))
	return cmp.Or(l.failure(), err)
}

// Recorded asks a model once. It runs ask, and records the reply in the ledger as an effect of this name. If the same
// question comes again after a crash, Recorded returns the recorded reply, and ask does not run. question holds all
// that decides the reply, as JSON: the model, what was said, the tools. Equal questions of one turn are counted.
//
// The usage counts towards the turn, once for each time that ask has run, also if ask returns an error. An error of ask
// is returned as it is, and nothing is recorded: the loop may ask again. A reply is what the ledger has, decoded from
// JSON, also the first time. A reply that is larger than ledger.MaxDocument is returned and not recorded, which is
// logged.
//
// ctx comes from Loop. Otherwise the error is ErrNoLoop.
func Recorded[R any](
	ctx context.Context, name string, question any, ask func(context.Context) (R, orchestrator.Usage, error),
) (reply R, err error) {
	l, err := loopIn(ctx)
	if err != nil {
		return reply, err
	}
	doc, err := json.Marshal(question)
	if err != nil {
		return reply, l.stop(fmt.Errorf("agent: the question of %q is no JSON: %w", name, logtext.Private(err)))
	}
	got, err := l.recorded(ctx, name, digest(doc), func(ctx context.Context) (r memo, err error) {
		answer, used, err := ask(oncehttp.Unrecorded(ctx))
		if err != nil {
			l.usage(used)
			return r, err
		}
		r.Usage = used
		doc, err := json.Marshal(answer)
		if r.Value = string(doc); err != nil {
			err = l.stop(fmt.Errorf("agent: the reply of %q is no JSON: %w", name, logtext.Private(err)))
		}
		return r, err
	})
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal([]byte(got.Value), &reply); err != nil {
		return reply, l.stop(fmt.Errorf("agent: the recorded reply of %q: %w", name, logtext.Private(err)))
	}
	return reply, nil
}

// Once runs a tool once for a call that the loop has got from its model. The tool is one that has a Run: made by Read,
// by Effect, or by hand from the tool of another library. What its Class, Key, Verify and Settles mean is what they
// mean for an agent. The result of a Read is recorded too, so that the loop finds the same after a crash.
//
// A Result goes to the model, also one that has Failed: the arguments do not fit, the tool has failed, it was certainly
// not executed. An error does not: it ends the loop, and the turn waits or fails.
//
// A call is the same as one before if it has the same ID, tool and arguments: it gets the same result, unless that has
// Failed. A library that knows no ids leaves ID empty: then equal calls are counted, and each of them runs.
//
// ctx comes from Loop. Otherwise the error is ErrNoLoop. A tool that waits for somebody needs an agent.
func Once(ctx context.Context, tool Tool, call Call) (Result, error) {
	l, err := loopIn(ctx)
	if err != nil {
		return Result{}, err
	}
	err = tool.prepare(false)
	if err == nil && (tool.Run == nil || tool.Wait != "") {
		err = errors.New("it waits for somebody, or has no Run: it needs an agent")
	}
	if err != nil {
		return Result{}, l.stop(fmt.Errorf("agent: tool %q: %w", tool.Name, err))
	}
	call.Name = tool.Name
	if misfit := tool.misfit(call.Args); misfit != "" {
		return Result{"the arguments do not fit: " + clip(misfit, maxResult), true}, nil
	}
	sum := digest([]byte(tool.Name), []byte(call.ID), call.Args)
	if call.ID == "" {
		return l.call(ctx, &tool, call, sum)
	}
	return l.callOnce(ctx, &tool, call, sum)
}

// A loop is what Loop gives to Recorded and Once.
type loop struct {
	record func(ctx context.Context, name, each string, fn func(context.Context) (memo, error)) (memo, error)
	effect func(ctx context.Context, tool *Tool, call Call, each string) (called, error)
	read   func(ctx context.Context, tool *Tool, call Call) (string, error)
	usage  func(orchestrator.Usage)
	log    *slog.Logger
	end    context.CancelCauseFunc

	mu    sync.Mutex // protects following fields
	fault error      // the loop is over
	calls map[string]*sameCall
}

// A memo is what the ledger keeps of a question, or of a call that has no effect of its own.
type memo struct {
	Value string             `json:"value"` // JSON as a text: some databases order the members of an object
	Usage orchestrator.Usage `json:"usage,omitzero"`
}

// A sameCall is a call with an id that is under way, or that has succeeded.
type sameCall struct {
	done   chan struct{} // closed when it has come to an end
	result Result
	err    error
}

type loopKey struct{}

func loopIn(ctx context.Context) (*loop, error) {
	l, _ := ctx.Value(loopKey{}).(*loop)
	if l == nil {
		return nil, ErrNoLoop
	}
	if err := l.failure(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *loop) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// stop ends the loop. It returns the error that has ended it first.
func (l *loop) stop(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.fault = err
		l.end(err)
	}
	return l.fault
}

// broken returns err. It ends the loop, unless the context of the call has ended.
func (l *loop) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ledger.ErrInDoubt) {
		return ctxcause.Of(ctx)
	}
	return l.stop(err)
}

// digest tells documents apart.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d ", len(p))
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// numbered calls try with the first number, from 1, whose place is free. try reports whether its function has run.
func numbered(sum string, try func(each string) (ran bool, err error)) error {
	for n := 1; ; n++ {
		ran, err := try(fmt.Sprint(sum, "#", n))
		if ran || !errors.Is(err, ledger.ErrRepeated) {
			return err
		}
	}
}

// recorded returns what is recorded under a name, or what fn returns. An error of fn does not end the loop.
func (l *loop) recorded(
	ctx context.Context, name, sum string, fn func(context.Context) (memo, error),
) (got memo, err error) {
	var made memo
	var own error
	ran := false
	err = numbered(sum, func(each string) (bool, error) {
		got, err = l.record(ctx, name, each, func(ctx context.Context) (memo, error) {
			ran, own = true, errPanicked
			made, own = fn(ctx)
			return made, own
		})
		return ran, err
	})
	switch {
	case err == nil:
		return got, nil
	case ran && own != nil: // a panic of fn is an error of the engine
		return got, err
	case ran && errors.Is(err, ledger.ErrInvalid):
		l.log.WarnContext(ctx, "reply not recorded: it is larger than a ledger takes", "effect", name,
			"limit", ledger.MaxDocument)
		l.usage(made.Usage)
		return made, nil
	}
	return got, l.broken(ctx, err)
}

// errPanicked stands for what a function has panicked with.
var errPanicked = errors.New("panicked")

// callOnce runs a call unless one with this id is under way or has succeeded.
func (l *loop) callOnce(ctx context.Context, tool *Tool, call Call, sum string) (Result, error) {
	l.mu.Lock()
	same := l.calls[sum]
	if same == nil {
		mine := &sameCall{done: make(chan struct{}), err: errPanicked}
		l.calls[sum] = mine
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if mine.err != nil || mine.result.Failed {
				delete(l.calls, sum)
			}
			close(mine.done)
		}()
		mine.result, mine.err = l.call(ctx, tool, call, sum)
		return mine.result, mine.err
	}
	l.mu.Unlock()
	select {
	case <-same.done:
		return same.result, same.err
	case <-ctx.Done():
		return Result{}, ctxcause.Of(ctx)
	}
}

// call runs a call.
func (l *loop) call(ctx context.Context, tool *Tool, call Call, sum string) (r Result, err error) {
	if tool.Class == ledger.Pure {
		return l.result(l.recorded(ctx, tool.Name, sum, func(ctx context.Context) (memo, error) {
			return l.reads(ctx, tool, call)
		}))
	}
	err = numbered(sum, func(each string) (ran bool, err error) {
		r, ran, err = l.acts(ctx, tool, call, each)
		return ran, err
	})
	if err != nil {
		return Result{}, l.broken(ctx, err)
	}
	return r, nil
}

// reads runs a tool that changes nothing. That it has failed is a result, too.
func (l *loop) reads(ctx context.Context, tool *Tool, call Call) (memo, error) {
	var text string
	err := protect(func() (err error) { text, err = l.read(ctx, tool, call); return err })
	_, panicked := err.(*orchestrator.PanicError) // as protect returns it
	switch {
	case err != nil && ctx.Err() != nil:
		return memo{}, ctxcause.Of(ctx)
	case panicked:
		l.log.ErrorContext(ctx, "tool panicked", "tool", tool.Name, "err", logtext.Of(logtext.Private(err)))
		return resultMemo(*failed("the tool failed").result)
	case err != nil:
		return resultMemo(*failed(clip(logtext.Text(err), maxResult)).result)
	}
	return resultMemo(Result{Text: clip(text, maxResult)})
}

// errHasRow says that what has come of an effect is not recorded: its row in the ledger says it.
var errHasRow = errors.New("the ledger has it as an effect")

// acts runs a tool that changes something. If it was not executed, nothing in the ledger would keep the next process
// from trying it again, and from telling the model something else. So this is recorded, beside the effect.
func (l *loop) acts(ctx context.Context, tool *Tool, call Call, each string) (r Result, ran bool, err error) {
	var done called
	var outcome error
	kept, err := l.record(ctx, tool.Name, "not "+each, func(inner context.Context) (memo, error) {
		done, outcome = l.effect(ctx, tool, call, each)
		ran = outcome != ledger.ErrRepeated //nolint:errorlint // an error of the tool may wrap it
		if outcome == nil {
			return memo{}, errHasRow
		}
		undone := ledger.IsNotDone(outcome) && !errors.Is(outcome, ledger.ErrInDoubt) && inner.Err() == nil
		if done, outcome = refusedEffect(outcome); outcome != nil {
			return memo{}, outcome
		}
		if !undone {
			return memo{}, errHasRow
		}
		return resultMemo(*done.result)
	})
	switch {
	case err == nil:
		r, err = l.result(kept, nil)
		return r, true, err
	case errors.Is(err, errHasRow):
		return *done.result, true, nil
	}
	return Result{}, ran, err
}

func resultMemo(r Result) (memo, error) {
	doc, err := json.Marshal(r)
	return memo{Value: string(doc)}, err
}

// result returns the result in a memo.
func (l *loop) result(kept memo, err error) (r Result, _ error) {
	if err == nil {
		err = json.Unmarshal([]byte(kept.Value), &r)
	}
	return r, err
}
