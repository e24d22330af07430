package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// effectOf gives an effect the identity that it has in this run, and takes its place.
func (x *execution[S]) effectOf(l *line, e ledger.Effect) (ledger.Effect, error) {
	switch {
	case x.engine().ledger == nil:
		return e, ErrNoLedger
	case l.place == inBegin:
		return e, fmt.Errorf("%w: Once in Begin: the turn is not recorded yet", ledger.ErrInvalid)
	}
	if l.over() {
		return e, errOver
	}
	e.Orchestrator, e.Session, e.RunID = x.engine().identity.name, l.session, l.run
	e.Iteration, e.Intent, e.Fence, e.Began = l.iteration, l.intent, l.fence, l.began
	parts := []string{"key", e.Orchestrator, e.Name, e.Key}
	if e.Key == "" {
		parts = []string{
			"place", e.Orchestrator, e.RunID, strconv.Itoa(e.Iteration), string(l.place), l.intent,
			strconv.Itoa(l.item), e.Name, e.Each,
		}
	}
	e.ID = digest(parts...)[:idLen]
	if err := e.ValidateIssue(); err != nil { // before anything is made of the arguments
		return e, err
	}
	var err error
	if e.ArgsSum, err = x.engine().options.Effects.sum(e.Args); err != nil {
		return e, err
	}
	kept, err := x.redacted(e)
	if err != nil {
		return e, err
	}
	e.Args = kept.Args
	if err := e.ValidateIssue(); err != nil {
		return e, err
	}
	if err := l.use(e.ID, e.Key != ""); err != nil {
		return e, err
	}
	x.effects.ask(e.ID, asker{l.place, l.intent, l.item})
	return e, nil
}

// effectFor is EffectOf.
func (x *execution[S]) effectFor(l *line, e ledger.Effect) (ledger.Effect, error) {
	e, err := x.effectOf(l, e)
	if err == nil && e.Class != ledger.Pure {
		err = x.commit(x.ctx, l)
	}
	return e, err
}

// once is Once.
func (x *execution[S]) once(ctx context.Context, l *line, c onceCall) (json.RawMessage, error) {
	e, err := x.effectOf(l, c.effect)
	if err != nil {
		return nil, err
	}
	if within(ctx, e.ID) {
		return nil, fmt.Errorf("%w: it is called from within itself", ledger.ErrRepeated)
	}
	leave, err := x.effects.enter(ctx, e.ID)
	switch {
	case err != nil && e.Class == ledger.Pure:
		return nil, err
	case err != nil: // the call before is still at work
		return nil, x.doubt(e, e.Class == ledger.Ask, err)
	}
	defer leave()
	c.effect = e
	if e.Class == ledger.Pure {
		raw, err := x.pure(ctx, l, c)
		if err != nil {
			l.free(e.ID) // nothing is recorded that another call could be taken for
		}
		return raw, err
	}
	if attempt := x.effects.attempt(e.ID); attempt > 0 { // its goroutine has ended without a word
		if _, err := x.record(ctx, e, attempt, ledger.Outcome{State: ledger.Unknown}); err != nil {
			return nil, err
		}
	}
	now, issued, err := x.issue(ctx, l, e, false)
	if err != nil {
		return nil, err
	}
	if !issued {
		var raw json.RawMessage
		if now, raw, err = x.known(ctx, l, now, c); now == nil {
			return raw, err
		}
	}
	return x.act(ctx, c, now.Attempts)
}

// issue notes the intent to try an effect. If again is true, it is the attempt after the one that e has. issued says
// that this call may act. Otherwise the effect is returned as it is known.
func (x *execution[S]) issue(
	ctx context.Context, l *line, e ledger.Effect, again bool,
) (now *ledger.Effect, issued bool, err error) {
	if err := x.over(ctx); err != nil {
		return nil, false, err
	}
	if err := x.commit(ctx, l); err != nil {
		return nil, false, err
	}
	if err := x.effects.begin(); err != nil {
		return nil, false, err
	}
	var mine underWay
	defer func() { x.effects.issued(e.ID, mine) }()
	var known ledger.Effect
	_, err = x.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		known, issued, err = x.engine().ledger.Issue(ctx, e, again)
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrChanged) && known.State.Open():
		return nil, false, x.doubt(e, true, err)
	case err != nil:
		return nil, false, x.verdict(err)
	}
	if issued {
		mine = underWay{known.Attempts, e.Class == ledger.Ask}
	}
	return &known, issued, nil
}

// known handles an effect that was tried before. It returns the attempt that the caller may act as; nil if the result
// or the error is the answer.
func (x *execution[S]) known(
	ctx context.Context, l *line, now *ledger.Effect, c onceCall,
) (attempt *ledger.Effect, result json.RawMessage, err error) {
	if now.AnsweredBy != "" {
		x.logger().InfoContext(ctx, "a person has answered for an effect", "session", l.session, "run", l.run,
			"effect", now.ID, "name", now.Name, "state", string(now.State), "by", now.AnsweredBy)
	}
	switch now.State {
	case ledger.Completed:
		x.effects.finished(c.effect.ID)
		l.emit(Event{Kind: EffectReplayed, Intent: l.intent, Item: l.item, Attempt: l.attempt, By: now.AnsweredBy})
		result, err = given(*now, nil, nil)
		return nil, result, err
	case ledger.Skipped:
		x.effects.finished(c.effect.ID)
		return nil, nil, ledger.ErrSkipped
	case ledger.Failed:
		return x.retry(ctx, l, now, c)
	case ledger.Issued:
		d := x.doubt(c.effect, false, fmt.Errorf("%w: another run is at work on it", lock.ErrHeld))
		d.pause = heldPause
		return nil, nil, d
	}
	switch c.effect.Class {
	case ledger.Ask:
		return nil, nil, x.doubt(c.effect, true, lastError(now))
	case ledger.Verifiable:
		result, landed, err := x.verified(ctx, c, *now)
		if landed || err != nil {
			return nil, result, err
		}
		if early := c.settlesIn(*now); early > 0 {
			d := x.doubt(c.effect, false, fmt.Errorf("%w: it counts in %v", errEarly, early.Round(time.Millisecond)))
			d.pause = min(early, max(firstRetry, now.Age/2), lastRetry)
			return nil, nil, d
		}
		c.effect.State = ledger.Failed // so says the other side, of all attempts
	}
	return x.retry(ctx, l, now, c)
}

// settlesIn returns for how long "not landed" does not count yet. The other side may be at work on the last attempt, or
// about to get it.
func (c *onceCall) settlesIn(now ledger.Effect) time.Duration {
	settles := c.settles
	if settles == 0 {
		ran := now.FinishedAt.Sub(now.IssuedAt) // until its outcome, or its next owner, has made it Unknown
		settles = max(ran, 0) + settleMargin
	}
	return settles - now.Age
}

// heldPause is how long a run waits for an effect that another run is at work on.
const heldPause = 5 * time.Second

// settleMargin is how much longer than the last attempt an effect may take, if OnceOptions do not say.
const settleMargin = 10 * time.Second

// errEarly says that an effect has not happened, as far as the other side knows, and may happen yet.
var errEarly = errors.New("the other side does not know of it yet, which is too early to believe")

// retry issues an effect anew, after the attempt that is known.
func (x *execution[S]) retry(
	ctx context.Context, l *line, now *ledger.Effect, c onceCall,
) (attempt *ledger.Effect, result json.RawMessage, err error) {
	c.effect.Attempts = now.Attempts
	again, issued, err := x.issue(ctx, l, c.effect, true)
	switch {
	case err != nil:
		return nil, nil, err
	case issued:
		return again, nil, nil
	}
	return x.known(ctx, l, again, c) // another owner was faster
}

// lastError is why an effect is in doubt, as the ledger has it.
func lastError(e *ledger.Effect) error {
	if e.Error == "" {
		return errors.New("its process has gone, or its owner has changed, before the outcome was recorded")
	}
	return logtext.Private(errors.New(e.Error))
}

// verified asks the other side whether an effect has happened. If it has, its value is recorded.
func (x *execution[S]) verified(
	ctx context.Context, c onceCall, now ledger.Effect,
) (result json.RawMessage, landed bool, err error) {
	err = x.engine().functions.protect(ctx, func() (err error) {
		result, landed, err = c.verify(ctx, c.effect.ID)
		return logtext.Private(err)
	})
	if err != nil {
		return nil, false, x.doubt(c.effect, false, fmt.Errorf("asking whether it happened: %w", err))
	}
	if !landed {
		return nil, false, nil
	}
	result, err = x.complete(ctx, c, now.Attempts, result)
	return result, true, err
}

// act tries an effect that was issued, and records the outcome.
func (x *execution[S]) act(ctx context.Context, c onceCall, attempt int) (json.RawMessage, error) {
	err := x.over(ctx)
	if err == nil && x.effects.over() {
		err = errOver
	}
	if err != nil { // Issue took too long
		text := cleanText("not begun: " + err.Error())
		return x.without(ctx, c, attempt, ledger.Outcome{State: ledger.Failed, Error: text}, err)
	}
	raw, err := x.called(ctx, c)
	if err == nil {
		return x.complete(ctx, c, attempt, raw)
	}
	o := ledger.Outcome{State: ledger.Unknown, Error: errorText(err)}
	if notDone(logtext.Private(err)) { // its methods may panic
		o.State = ledger.Failed
	}
	return x.without(ctx, c, attempt, o, err)
}

// without records that an attempt has brought no result because of err. What the ledger says then counts: an attempt
// before this one may have happened, or its late result may have come.
func (x *execution[S]) without(
	ctx context.Context, c onceCall, attempt int, o ledger.Outcome, err error,
) (json.RawMessage, error) {
	now, lost := x.record(ctx, c.effect, attempt, o)
	switch {
	case lost != nil:
		return nil, errors.Join(lost, logtext.Private(err))
	case now.State == ledger.Completed:
		return given(now, nil, nil)
	case now.State.Open():
		return nil, x.doubt(c.effect, c.effect.Class == ledger.Ask, logtext.Private(err))
	}
	return nil, err
}

// complete records the result of an effect that has happened, and returns the result that the ledger has then.
func (x *execution[S]) complete(
	ctx context.Context, c onceCall, attempt int, raw json.RawMessage,
) (json.RawMessage, error) {
	e := c.effect
	o := ledger.Outcome{State: ledger.Completed, Result: raw}
	err := ledger.ValidateFinish(e.ID, attempt, o)
	if err == nil {
		e.Result = raw
		var kept ledger.Effect
		if kept, err = x.redacted(e); err == nil {
			o.Result, o.Redacted = kept.Result, !bytes.Equal(kept.Result, raw)
			err = ledger.ValidateFinish(e.ID, attempt, o)
		}
	}
	if err != nil {
		err = &resultError{err}
		return x.without(ctx, c, attempt, ledger.Outcome{State: ledger.Unknown, Error: errorText(err)}, err)
	}
	now, err := x.outcome(ctx, e.ID, attempt, o)
	if err != nil {
		return nil, err
	}
	return given(now, o.Result, raw)
}

// record notes an outcome that is no result. Its text is redacted.
func (x *execution[S]) record(
	ctx context.Context, e ledger.Effect, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	if o.Error != "" {
		e.Args, e.Error = nil, o.Error
		kept, err := x.redacted(e)
		if o.Error = cleanText(kept.Error); err != nil {
			o.Error = redactPanicked
		}
		if len(o.Error) > ledger.MaxError {
			o.Error = strings.ToValidUTF8(o.Error[:ledger.MaxError], "")
		}
	}
	return x.outcome(ctx, e.ID, attempt, o)
}

// outcome notes the outcome of an attempt. It does so for an owner that is fenced off too.
func (x *execution[S]) outcome(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	_, err = x.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		now, err = x.engine().ledger.Finish(ctx, id, attempt, o)
		return err
	})
	if err != nil {
		return now, x.verdict(err)
	}
	x.effects.finished(id)
	return now, nil
}

// doubt returns the error for an effect whose outcome is not known. The turn of the effect does not fail after that.
func (x *execution[S]) doubt(e ledger.Effect, ask bool, err error) *InDoubtError {
	d := &InDoubtError{RunID: e.RunID, Effects: []string{e.ID}, Ask: ask, Err: err}
	x.effects.doubt(e.ID, d)
	return d
}

// closeEffects lets the functions of the bot issue nothing more, before the turn ends. An effect that a function has
// left behind is Unknown then: no other run has to wait for this one. It stays in doubt: if the turn cannot settle, it
// does not fail either.
func (x *execution[S]) closeEffects() error {
	if err := x.effects.failure(); err != nil {
		return err
	}
	for id, left := range x.effects.close() {
		now, err := x.outcome(
			x.ctx,
			id,
			left.attempt,
			ledger.Outcome{State: ledger.Unknown, Error: errLeftUnderWay.Error()},
		)
		if err != nil {
			return err
		}
		if now.State.Open() {
			x.effects.doubt(id, &InDoubtError{
				RunID: x.run.row.ID, Effects: []string{id}, Ask: left.ask, Err: errLeftUnderWay,
			})
		}
	}
	return nil
}

// errLeftUnderWay says that a function has returned while a goroutine of it was at work on an effect.
var errLeftUnderWay = errors.New("the turn has ended, and the effect was still under way")
