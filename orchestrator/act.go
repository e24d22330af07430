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
func (fx *effects) effectOf(l *line, c onceCall) (ledger.Effect, error) {
	e := c.effect
	switch {
	case fx.of.engine().ledger == nil:
		return e, ErrNoLedger
	case l.in == inBegin:
		return e, fmt.Errorf("%w: Once in Begin: the turn is not recorded yet", ledger.ErrInvalid)
	}
	if l.over() {
		return e, errOver
	}
	e, err := fx.named(l, c)
	if err != nil {
		return e, err
	}
	if err := l.use(e.ID, e.Key != ""); err != nil {
		return e, err
	}
	fx.book.ask(e.ID, asker{l.in, l.intent, l.item})
	return e, nil
}

// named gives an effect the identity that it has at the place of l.
func (fx *effects) named(l *line, c onceCall) (ledger.Effect, error) {
	e := c.effect
	e.Orchestrator, e.Session, e.RunID = fx.of.engine().identity.name, l.session, l.run
	e.Iteration, e.Intent, e.Fence, e.Began = l.iteration, l.intent, l.fence, l.began
	parts := []string{"key", e.Orchestrator, e.Name, e.Key}
	if e.Key == "" {
		parts = []string{
			"place", e.Orchestrator, e.RunID, strconv.Itoa(e.Iteration), string(l.in), l.intent,
			strconv.Itoa(l.item), e.Name, e.Each,
		}
		if tries := l.tries(); e.Class == ledger.Pure && !c.keep && tries != "" {
			parts = append(parts, "try", tries)
		}
	}
	e.ID = digest(parts...)[:idLen]
	if err := e.ValidateIssue(); err != nil { // before anything is made of the arguments
		return e, err
	}
	var err error
	if e.ArgsSum, err = fx.of.engine().options.Effects.sum(e.Args); err != nil {
		return e, err
	}
	kept, err := fx.redacted(e)
	if err != nil {
		return e, err
	}
	e.Args = kept.Args // Issue looks at them
	return e, nil
}

// effectFor is EffectOf.
func (fx *effects) effectFor(l *line, c onceCall) (ledger.Effect, error) {
	e, err := fx.effectOf(l, c)
	if err == nil && e.Class != ledger.Pure {
		_, err = fx.commit(fx.of.ctx, l)
	}
	if err == nil {
		err = fx.record(fx.of.ctx)
	}
	return e, err
}

// once is Once.
func (fx *effects) once(ctx context.Context, l *line, c onceCall) (raw json.RawMessage, err error) {
	e, err := fx.effectOf(l, c)
	if err != nil {
		return nil, err
	}
	if c.usage != nil {
		defer func() {
			if err != nil {
				return
			}
			if u := c.usage(raw); l.meter.addOnce(e.ID, u) {
				l.home.spent(u)
			}
		}()
	}
	if within(ctx, e.ID) {
		return nil, fmt.Errorf("%w: it is called from within itself", ledger.ErrRepeated)
	}
	leave, err := fx.book.enter(ctx, e.ID)
	switch {
	case err != nil && e.Class == ledger.Pure:
		return nil, err
	case err != nil: // the call before is still at work
		return nil, fx.doubt(e, e.Class == ledger.Ask, err)
	}
	defer leave()
	c.effect = e
	if e.Class == ledger.Pure {
		raw, err := fx.pure(ctx, l, c)
		if err != nil {
			l.free(e.ID) // nothing is recorded that another call could be taken for
		}
		return raw, err
	}
	if fx.of.run.cargo.waits(e.ID) { // this call gets what the one before has recorded
		if err := fx.record(ctx); err != nil {
			return nil, err
		}
	}
	switch issued, same := fx.book.board(e); {
	case same: // a save has issued it
		c.fresh = true
		return fx.act(ctx, c, 1)
	case issued: // with other arguments
		fx.of.run.cargo.put(notBegun(e.ID))
		if err := fx.record(ctx); err != nil {
			return nil, err
		}
	}
	if attempt := fx.book.attempt(e.ID); attempt > 0 { // its goroutine has ended without a word
		if _, err := fx.note(ctx, e, attempt, ledger.Outcome{State: ledger.Unknown}); err != nil {
			return nil, err
		}
	}
	now, issued, err := fx.issue(ctx, l, e, false)
	if err != nil {
		return nil, err
	}
	if !issued {
		var raw json.RawMessage
		if now, raw, err = fx.known(ctx, l, now, c); now == nil {
			return raw, err
		}
	}
	c.fresh = issued && now.Attempts == 1
	return fx.act(ctx, c, now.Attempts)
}

// issue notes the intent to try an effect. If again is true, it is the attempt after the one that e has. issued says
// that this call may act. Otherwise the effect is returned as it is known.
func (fx *effects) issue(
	ctx context.Context, l *line, e ledger.Effect, again bool,
) (now *ledger.Effect, issued bool, err error) {
	if err := fx.of.over(ctx); err != nil {
		return nil, false, err
	}
	if err := fx.book.begin(); err != nil {
		return nil, false, err
	}
	var mine underWay
	defer func() { fx.book.issued(e.ID, mine) }()
	first := underWay{1, e.Class == ledger.Ask}
	if issued, err = fx.carried(ctx, l, e, again); issued || err != nil {
		if issued {
			mine = first
		}
		return &ledger.Effect{ID: e.ID, State: ledger.Issued, Attempts: 1}, issued, err
	}
	if err := fx.record(ctx); err != nil { // no effect begins while the outcome of another is not durable
		return nil, false, err
	}
	var known ledger.Effect
	_, err = fx.of.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		known, issued, err = fx.of.engine().ledger.Issue(ctx, e, again)
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrChanged) && known.State.Open():
		return nil, false, fx.doubt(e, true, err)
	case err != nil:
		return nil, false, fx.verdict(err)
	}
	if issued {
		mine = first
		mine.attempt = known.Attempts
	}
	return &known, issued, nil
}

// known handles an effect that was tried before. It returns the attempt that the caller may act as; nil if the result
// or the error is the answer.
func (fx *effects) known(
	ctx context.Context, l *line, now *ledger.Effect, c onceCall,
) (attempt *ledger.Effect, result json.RawMessage, err error) {
	if now.AnsweredBy != "" {
		fx.of.logger().InfoContext(ctx, "a person has answered for an effect", "session", l.session, "run", l.run,
			"effect", now.ID, "name", now.Name, "state", string(now.State), "by", now.AnsweredBy)
	}
	switch now.State {
	case ledger.Completed:
		fx.book.known(c.effect.ID)
		l.emit(Event{Kind: EffectReplayed, By: now.AnsweredBy})
		result, err = given(*now, nil, nil)
		return nil, result, err
	case ledger.Skipped:
		fx.book.known(c.effect.ID)
		return nil, nil, ledger.ErrSkipped
	case ledger.Failed:
		return fx.retry(ctx, l, now, c)
	case ledger.Issued:
		d := fx.doubt(c.effect, false, fmt.Errorf("%w: another run is at work on it", lock.ErrHeld))
		d.pause = heldPause
		return nil, nil, d
	}
	switch c.effect.Class {
	case ledger.Ask:
		return nil, nil, fx.doubt(c.effect, true, lastError(now))
	case ledger.Verifiable:
		result, landed, err := fx.verified(ctx, c, *now)
		if landed || err != nil {
			return nil, result, err
		}
		if early := c.settlesIn(*now); early > 0 {
			d := fx.doubt(c.effect, false, fmt.Errorf("%w: it counts in %v", errEarly, early.Round(time.Millisecond)))
			d.pause = min(early, max(firstRetry, now.Age/2), lastRetry)
			return nil, nil, d
		}
		c.effect.State = ledger.Failed // so says the other side, of all attempts
	}
	return fx.retry(ctx, l, now, c)
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
func (fx *effects) retry(
	ctx context.Context, l *line, now *ledger.Effect, c onceCall,
) (attempt *ledger.Effect, result json.RawMessage, err error) {
	c.effect.Attempts = now.Attempts
	again, issued, err := fx.issue(ctx, l, c.effect, true)
	switch {
	case err != nil:
		return nil, nil, err
	case issued:
		return again, nil, nil
	}
	return fx.known(ctx, l, again, c) // another owner was faster
}

// lastError is why an effect is in doubt, as the ledger has it.
func lastError(e *ledger.Effect) error {
	if e.Error == "" {
		return errors.New("its process has gone, or its owner has changed, before the outcome was recorded")
	}
	return logtext.Private(errors.New(e.Error))
}

// verified asks the other side whether an effect has happened. If it has, its value is recorded.
func (fx *effects) verified(
	ctx context.Context, c onceCall, now ledger.Effect,
) (result json.RawMessage, landed bool, err error) {
	err = fx.of.engine().functions.protect(ctx, func() (err error) {
		result, landed, err = c.verify(ctx, c.effect.ID)
		return logtext.Private(err)
	})
	if err != nil {
		return nil, false, fx.doubt(c.effect, false, fmt.Errorf("asking whether it happened: %w", err))
	}
	if !landed {
		return nil, false, nil
	}
	result, err = fx.complete(ctx, c, now.Attempts, result)
	return result, true, err
}

// act tries an effect that was issued, and records the outcome.
func (fx *effects) act(ctx context.Context, c onceCall, attempt int) (json.RawMessage, error) {
	err := fx.of.over(ctx)
	if err == nil && fx.book.over() {
		err = errOver
	}
	if err != nil { // Issue took too long
		text := cleanText("not begun: " + err.Error())
		return fx.without(ctx, c, attempt, ledger.Outcome{State: ledger.Failed, Error: text}, err)
	}
	raw, err := fx.called(ctx, c)
	if err == nil {
		return fx.complete(ctx, c, attempt, raw)
	}
	o := ledger.Outcome{State: ledger.Unknown, Error: errorText(err)}
	if notDone(logtext.Private(err)) { // its methods may panic
		o.State = ledger.Failed
	}
	return fx.without(ctx, c, attempt, o, err)
}

// without records that an attempt has brought no result because of err. What the ledger says then counts: an attempt
// before this one may have happened, or its late result may have come.
func (fx *effects) without(
	ctx context.Context, c onceCall, attempt int, o ledger.Outcome, err error,
) (json.RawMessage, error) {
	now, lost := fx.note(ctx, c.effect, attempt, o)
	switch {
	case lost != nil:
		return nil, errors.Join(lost, logtext.Private(err))
	case now.State == ledger.Completed:
		return given(now, nil, nil)
	case now.State.Open():
		return nil, fx.doubt(c.effect, c.effect.Class == ledger.Ask, logtext.Private(err))
	}
	return nil, err
}

// complete records the result of an effect that has happened, and returns the result that the ledger has then.
func (fx *effects) complete(
	ctx context.Context, c onceCall, attempt int, raw json.RawMessage,
) (json.RawMessage, error) {
	e := c.effect
	o := ledger.Outcome{State: ledger.Completed, Result: raw}
	e.Result = raw
	kept, err := fx.redacted(e)
	if err == nil {
		o.Result, o.Redacted = kept.Result, !bytes.Equal(kept.Result, raw)
		err = ledger.ValidateFinish(e.ID, attempt, o) // what Finish refuses would stay open
	}
	if err != nil {
		err = &resultError{err}
		return fx.without(ctx, c, attempt, ledger.Outcome{State: ledger.Unknown, Error: errorText(err)}, err)
	}
	if c.fresh && fx.waits(ledger.Finish{ID: e.ID, Attempt: attempt, Outcome: o}) {
		return raw, nil
	}
	now, err := fx.outcome(ctx, e.ID, attempt, o)
	if err != nil {
		return nil, err
	}
	return given(now, o.Result, raw)
}

// waits lets the outcome of a first attempt wait for a save of the run that carries it, if the stores are joined. The
// next effect and the next recorded call begin after that save. Only effects that were announced together do not wait
// for each other: none of them knows the result of another.
func (fx *effects) waits(f ledger.Finish) bool {
	linger := fx.of.engine().options.Effects.Linger
	waits := fx.of.run.cargo.add(f, linger, func() { _ = fx.record(fx.of.ctx) })
	if waits {
		fx.book.known(f.ID)
	}
	return waits
}

// note notes an outcome that is no result. Its text is redacted.
func (fx *effects) note(
	ctx context.Context, e ledger.Effect, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	if o.Error != "" {
		e.Args, e.Error = nil, o.Error
		kept, err := fx.redacted(e)
		if o.Error = cleanText(kept.Error); err != nil {
			o.Error = redactPanicked
		}
		if len(o.Error) > ledger.MaxError {
			o.Error = strings.ToValidUTF8(o.Error[:ledger.MaxError], "")
		}
	}
	return fx.outcome(ctx, e.ID, attempt, o)
}

// outcome notes the outcome of an attempt. It does so for an owner that is fenced off too.
func (fx *effects) outcome(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	_, err = fx.of.visit.own.Persist(ctx, func(ctx context.Context) (err error) {
		now, err = fx.of.engine().ledger.Finish(ctx, id, attempt, o)
		return err
	})
	if err != nil {
		return now, fx.verdict(err)
	}
	fx.book.known(id)
	return now, nil
}

// doubt returns the error for an effect whose outcome is not known. The turn of the effect does not fail after that.
func (fx *effects) doubt(e ledger.Effect, ask bool, err error) *InDoubtError {
	d := &InDoubtError{RunID: e.RunID, Effects: []string{e.ID}, Ask: ask, Err: err}
	fx.book.doubt(e.ID, d)
	return d
}

// closeEffects lets the functions of the bot issue nothing more, before the turn ends. An effect that a function has
// left behind is Unknown then: no other run has to wait for this one. It stays in doubt: if the turn cannot settle, it
// does not fail either.
func (fx *effects) closeEffects() error {
	if err := fx.book.failure(); err != nil {
		return err
	}
	fx.of.run.cargo.carries(false)
	open := fx.book.close()
	fx.notBegun()
	if err := fx.record(fx.of.ctx); err != nil {
		return err
	}
	if err := fx.of.run.log(fx.of.ctx); err != nil {
		fx.book.fail(err)
		return err
	}
	for id, left := range open {
		now, err := fx.outcome(
			fx.of.ctx,
			id,
			left.attempt,
			ledger.Outcome{State: ledger.Unknown, Error: errLeftUnderWay.Error()},
		)
		if err != nil {
			return err
		}
		if now.State.Open() {
			fx.book.doubt(id, &InDoubtError{
				RunID: fx.of.run.row.ID, Effects: []string{id}, Ask: left.ask, Err: errLeftUnderWay,
			})
		}
	}
	return nil
}

// errLeftUnderWay says that a function has returned while a goroutine of it was at work on an effect.
var errLeftUnderWay = errors.New("the turn has ended, and the effect was still under way")
