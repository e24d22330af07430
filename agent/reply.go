package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// What may be wrong with a call of a model.
var (
	errBudget = errors.New("agent: the session has cost what it may")
	errSlow   = errors.New("agent: the model has not answered within ReplyTimeout")
	errStuck  = errors.New("agent: the model goes on although its context has ended")
	errGoexit = errors.New("agent: the model has ended its goroutine")
)

// A question is what the models are asked until one of them answers.
type question[C any] struct {
	agent   *Agent[C]
	turn    *Turn[C]
	models  []Model
	shown   []message.Message // before Prepare
	request Request
	said    speech
}

// put is answer, until somebody stops the turn: then the error is errStopped. The requests of a client with an
// oncehttp.Recorder belong to the turn.
func (q *question[C]) put(ctx context.Context) (message.Message, error) {
	inner, done := q.agent.interruptible(ctx, q.turn)
	defer done()
	inner = oncehttp.With(inner, q.turn, phaseModel)
	m, err := q.answer(inner)
	if err != nil && stopped(inner) && ctx.Err() == nil {
		return m, errStopped
	}
	return m, err
}

// answer asks the models until one of them answers, as often as Definition.Retry says.
func (q *question[C]) answer(ctx context.Context) (m message.Message, err error) {
	left := slices.Clone(q.models)
	all := make([]error, len(left))
	for attempt := 1; ; attempt++ {
		last := attempt >= q.agent.def.Retry.Attempts
		after, open := time.Duration(math.MaxInt64), false
		for i, model := range left {
			if model == nil { // another attempt cannot help
				continue
			}
			if m, err = q.ask(ctx, model); err == nil || ctx.Err() != nil || errors.Is(err, errBudget) {
				return m, err
			}
			wait, again := q.agent.worth(err)
			if again {
				after, open = min(after, wait), true
			} else {
				left[i] = nil
			}
			all[i] = err
			q.log(ctx, err, "attempt", attempt, "model", i+1, "again", again && !last)
		}
		err = fmt.Errorf("agent: the model: %w", together(all))
		if last || !open {
			return m, err
		}
		if stop := q.pause(ctx, attempt, after); stop != nil {
			return m, fmt.Errorf("%w, before another attempt after: %w", stop, err)
		}
	}
}

// ask asks a model once.
func (q *question[C]) ask(ctx context.Context, model Model) (m message.Message, err error) {
	if left, limited := q.agent.left(q.turn); limited && left <= 0 {
		return m, errBudget
	}
	inner, end := q.agent.spans.chat(ctx)
	reply, err := q.call(inner, model)
	end(reply.Usage, err)
	q.turn.AddUsage(q.usage(ctx, reply.Usage)) // also of a failed call
	if err == nil {
		m, err = q.agent.proper(q.turn, q.shown, reply)
	}
	if err != nil && ctx.Err() == nil && q.said.forget() {
		q.turn.BeginAnew(err)
	}
	return m, err
}

// call calls a model. A model that goes on after its context has ended is given up after a while.
func (q *question[C]) call(ctx context.Context, model Model) (Reply, error) {
	limit := q.agent.def.ReplyTimeout
	if end, ok := ctx.Deadline(); ok && q.agent.happened(q.turn) { // the turn has to settle before that
		limit = min(limit, time.Until(end)/10*9)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	token := q.said.begin()
	defer q.said.end()
	type answer struct {
		reply Reply
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errGoexit}
		defer func() { answers <- a }()
		a.err = logtext.Private(protect(func() (err error) {
			a.reply, err = model.Reply(ctx, q.request, token)
			return err
		}))
	}()
	ended, late := ctx.Done(), make(<-chan time.Time)
	for {
		select {
		case a := <-answers:
			if a.err != nil && errors.Is(context.Cause(ctx), errSlow) {
				a.err = fmt.Errorf("%w: %w", errSlow, a.err)
			}
			return a.reply, a.err
		case <-ended:
			ended, late = nil, time.After(q.agent.patience)
		case <-late:
			return Reply{}, errStuck
		}
	}
}

// pause waits before another attempt, for at least so long. It returns why there is no other attempt.
func (q *question[C]) pause(ctx context.Context, failed int, least time.Duration) (stop error) {
	if left, limited := q.agent.left(q.turn); limited && left <= 0 {
		return errBudget
	}
	pause := least
	if wait := q.agent.def.Retry.Wait; wait != nil {
		err := protect(func() error { pause = max(pause, wait(failed)); return nil })
		if err != nil {
			return fmt.Errorf("Retry.Wait: %w", logtext.Private(err))
		}
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return fmt.Errorf("the time of the turn ends within a pause of %v", pause)
	}
	if keeper.Sleep(ctx, pause) != nil {
		return ctxcause.Of(ctx)
	}
	return nil
}

// worth says whether another attempt may help after err, and after which time at least.
func (a *Agent[C]) worth(err error) (after time.Duration, again bool) {
	if all, ok := errors.AsType[*failures](err); ok { // of a Fallback within another Model
		after = math.MaxInt64
		for _, err := range all.errs {
			if wait, ok := a.worth(err); ok {
				after, again = min(after, wait), true
			}
		}
		return after, again
	}
	_, panicked := errors.AsType[*orchestrator.PanicError](err)
	if panicked || retry.IsPermanent(err) ||
		errors.Is(err, ErrTooLong) || errors.Is(err, errStuck) || errors.Is(err, errGoexit) ||
		errors.Is(err, orchestrator.ErrNoLedger) { // an oncehttp.Recorder needs one
		return 0, false
	}
	after, _ = retry.AfterOf(err)
	return after, after <= a.def.MaxRetryAfter
}

// log writes the line of a failed attempt.
func (q *question[C]) log(ctx context.Context, err error, args ...any) {
	if p, ok := errors.AsType[*orchestrator.PanicError](err); ok {
		args = append(args, "stack", string(p.Stack))
	}
	if status := statusOf(err); status != 0 {
		args = append(args, "status", status)
	}
	q.turn.Logger().WarnContext(ctx, "model failed", append(args, "err", q.agent.logged(err))...)
}

// No call costs so much, in any currency. Sums of them are numbers.
const (
	mostCost   = 1e15
	mostTokens = 1 << 40
)

// usage returns what of the usage of a call counts. A model that gives money back would break the budget.
func (q *question[C]) usage(ctx context.Context, u orchestrator.Usage) orchestrator.Usage {
	counts := u
	counts.Input, counts.Output = min(max(u.Input, 0), mostTokens), min(max(u.Output, 0), mostTokens)
	if !(u.Cost >= 0 && u.Cost <= mostCost) {
		counts.Cost = 0
	}
	if counts != u {
		q.turn.Logger().WarnContext(ctx, "usage of the model is left out: it cannot be",
			"input", u.Input, "output", u.Output, "cost", u.Cost)
	}
	return counts
}
