package enginetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An act is a request to a process.
type act struct {
	name string
	do   func(context.Context, *world, *engine) (*Result, error)
	// check is how a healthy process must answer.
	check func(*Result, error) error
	// whole is the same request with more to do.
	whole *act
}

func execute(text, requestID string) act {
	in := input{RequestID: requestID, Text: text}
	return act{
		name: fmt.Sprintf("Execute %q %q", text, requestID),
		do: func(ctx context.Context, _ *world, bot *engine) (*Result, error) {
			return bot.Execute(ctx, session, in, nil)
		},
		check: func(res *Result, err error) error {
			if err == nil && res.Input.Text != text {
				err = fmt.Errorf("result has the input %q of another turn", res.Input.Text)
			}
			return err
		},
	}
}

// The acts, besides a turn.
var (
	resume = act{name: "Resume", do: func(ctx context.Context, _ *world, bot *engine) (*Result, error) {
		return bot.Resume(ctx, session, nil)
	}, check: func(_ *Result, err error) error {
		if errors.Is(err, orchestrator.ErrNothingToResume) {
			return nil
		}
		return err
	}}
	recovery = act{name: "Recover", do: func(ctx context.Context, _ *world, bot *engine) (*Result, error) {
		_, err := bot.Recover(ctx, session)
		return nil, err
	}, check: onlyError}
	abandon = act{name: "Abandon", do: func(ctx context.Context, w *world, bot *engine) (*Result, error) {
		run := w.firstRun()
		ended, err := bot.Abandon(ctx, session, run)
		if err == nil {
			w.abandoned(run, ended)
		}
		return nil, err
	}, check: onlyError}
	remove = act{name: "Delete", do: func(ctx context.Context, w *world, bot *engine) (*Result, error) {
		err := bot.Delete(ctx, session)
		if err == nil {
			w.removed()
		}
		return nil, err
	}, check: onlyError}
)

// takes reports whether the act takes the session from its owner.
func (a act) takes() bool { return a.name == abandon.name || a.name == remove.name }

func onlyError(_ *Result, err error) error { return err }

// act starts the process and gives it the act.
func (p *process) act(ctx context.Context, how orchestrator.OnInterrupted, a act) (*Result, error) {
	defer close(p.done)
	ctx, p.quit = context.WithCancel(ctx)
	defer p.quit()
	bot, err := p.start(how)
	if err != nil {
		return nil, err
	}
	p.note("%s: %s", p.name, a.name)
	res, err := a.do(ctx, p.world, bot)
	p.note("%s: %s returns %v, %v", p.name, a.name, said(res), err)
	return res, err
}

// hear notes the answer to a caller. It returns the run that the call has begun, if the answer shows it, or "".
func (w *world) hear(a act, began string, res *Result, err error) {
	// The caller of Recover learns that the run will be due again.
	if a.name == recovery.name {
		return
	}
	w.fails(began, err)
	if res != nil {
		w.fails("", res.ResumeErr)
		w.hears(res)
	}
}

// fails marks a run as one that will never settle, if err says so.
func (w *world) fails(began string, err error) {
	if err == nil {
		return
	}
	for _, open := range []error{orchestrator.ErrIndeterminate, orchestrator.ErrSuspended, orchestrator.ErrParked} {
		if errors.Is(err, open) {
			return
		}
	}
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		w.accuse(Healthy, "no *orchestrator.Error: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range []string{began, e.RunID} {
		if r := w.runs[id]; r != nil && (!w.again || r.refused && r.kept) {
			w.failed[id] = err.Error()
		}
	}
}

// drain finishes all unfinished work.
func (w *world) drain(ctx context.Context, bot *engine) error {
	const passes = 5
	for range passes {
		found := w.bot.buys && w.answers(ctx)
		for id, err := range bot.Recoverable(ctx, true) {
			if err != nil {
				return err
			}
			found = true
			outcome, err := bot.Recover(ctx, id)
			w.note("drain: %s, %v", outcome, err)
			if err != nil {
				return err
			}
		}
		if !found {
			return w.finishLater(ctx, bot)
		}
	}
	return fmt.Errorf("after %d passes there is something to recover", passes)
}

// finishLater finishes a run, or a delivery, that failed without a caller and is not due yet. Drains wait until it is
// due. Callers do not.
func (w *world) finishLater(ctx context.Context, bot *engine) error {
	a := simple
	if r := w.inFlight(ctx); r != nil && r.Status == snapshot.Waiting {
		a = resume
	} else if !w.isHeldBack() {
		return nil
	}
	res, err := w.asks(ctx, bot, a)
	w.note("drain: %s returns %v, %v", a.name, said(res), err)
	w.hear(a, "", res, err)
	return err
}

// said describes a result for people.
func said(res *Result) string {
	if res == nil {
		return "nothing"
	}
	return fmt.Sprintf("turn %d of run %s", res.Turn, res.RunID)
}
