package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// logStarted records that the run has begun, before any function of the bot but Begin runs. If it cannot be recorded, a
// run that is new fails. A run that was adopted is left in flight: it may have done much.
func (x *flight) logStarted() error {
	if !x.visit.phases.on() {
		return nil
	}
	if err := x.visit.phases.started(x.ctx, x.run.row, x.run.payload, ""); err != nil {
		if x.adopted {
			x.effects.book.fail(err)
		}
		return x.err("log", err)
	}
	return nil
}

// stamp returns the time of an entry, while the function of the line runs. So the entry is earlier than what the engine
// records after that, also if it lands later.
func (l *line) stamp(p *phases) (at int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return 0, false
	}
	return p.tick(), true
}

// note lets an entry wait for the next save, while the function of the line runs. It returns the error with which the
// log would refuse the entry.
func (l *line) note(x *flight, r snapshot.Run, phase string, state json.RawMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errRecordOver
	}
	e := entryOf(r, phase, x.visit.phases.tick(), state)
	if err := x.engine().carried.Validate(e); err != nil {
		return fmt.Errorf("%w: %w", errNotLogged, err)
	}
	x.run.cargo.note(e)
	return nil
}

// recordPhase is Turn.Record, and with soon it is Turn.RecordSoon.
func (x *flight) recordPhase(ctx context.Context, l *line, phase string, state any, soon bool) error {
	switch {
	case !x.visit.phases.on():
		return nil
	case l.in == inBegin:
		return errors.New("Record in Begin: the turn is not recorded yet")
	case phase == turnlog.Started || phase == turnlog.Settled:
		return fmt.Errorf("%w: the engine records %q", turnlog.ErrPhase, phase)
	case l.over():
		return errRecordOver
	}
	raw, err := phaseState(state)
	if err == nil {
		err = x.over(ctx)
	}
	// Other branches may be saved meanwhile, so the row of the run is not read.
	r := snapshot.Run{
		Key: snapshot.Key{Orchestrator: x.engine().identity.name, Session: l.session}, ID: l.run, Turn: l.turn,
	}
	if soon && err == nil && x.engine().carried != nil && x.run.cargo.isOpen() {
		return l.note(x, r, phase, raw)
	}
	for tries := 0; err == nil; tries++ {
		at, ok := l.stamp(&x.visit.phases)
		if !ok {
			return errRecordOver
		}
		err = x.visit.phases.record(ctx, r, phase, at, raw)
		if err == nil {
			return nil
		}
		// An owner before or after this one was at work in the same millisecond.
		if errors.Is(err, turnlog.ErrChanged) && tries < mostTries {
			err = x.over(ctx)
			continue
		}
		if !errors.Is(err, turnlog.ErrPhase) && !errors.Is(err, turnlog.ErrState) &&
			!errors.Is(err, turnlog.ErrInvalid) {
			x.effects.book.fail(err)
		}
	}
	return err
}

// turnState returns what the turn log says of a turn that has failed.
func (x *flight) turnState(e *Error) string {
	switch {
	case errors.Is(e.Err, ErrTurnTimeout):
		return turnlog.TimedOut
	case x.visit.own.Ctx.Err() != nil:
		return turnlog.Cancelled
	}
	return turnlog.Failed
}

// logFailed records the end of a turn that has failed, and reports whether it could.
func (x *flight) logFailed(end storedEnd, reason string) bool {
	if !x.visit.phases.on() {
		return true
	}
	r := x.run.row
	r.Error = reason
	if x.stage >= recorded {
		return x.visit.logOver(r, x.visit.phases.ended(x.ctx, r, end))
	}
	return x.visit.logEnded(r, x.run.payload, end, "")
}

// respond returns what Definition.Respond makes of a settled turn.
func (o *codec[S]) respond(
	ctx context.Context, session string, cp checkpoint.Checkpoint, force bool,
) (json.RawMessage, error) {
	res, err := o.result(ctx, session, cp, force)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.engine.options.Limits.SettleTimeout)
	defer cancel()
	var said json.RawMessage
	err = o.engine.functions.run(ctx, func(context.Context) (err error) {
		said, err = json.Marshal(o.def.Respond(res))
		return err
	})
	if err != nil { // it may be running still, and write what it says
		return nil, err
	}
	return said, nil
}
