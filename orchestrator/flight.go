package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A flight is a run on its way to settle, in the hands of this process.
type flight[S any] struct {
	*visit[S]
	ctx      context.Context // the session's, with the span of the turn
	tracer   tracer
	id       string
	index    int // of the turn it will be
	input    Input
	run      *snapshot.Run // as the snapshot store has it, or will; nil without one
	memo     memo          // the same; its State is what was saved last, nil for that of the newest turn
	recorded bool          // the snapshot store has it
	saved    *saved        // nil: nothing
	built    bool          // state and history are those of the turn
	final    bool          // nothing follows in this call
	began    time.Time

	state   S
	history []message.Message
	ran     []string
	reasons []string // why each step was decided; may be shorter than the steps
	meter   meter
}

// saved is what the snapshot store is known to have.
type saved struct {
	run  snapshot.Run
	memo memo
}

// newFlight is the run of a new input, or the same run as before for an input that has come before.
func (v *visit[S]) newFlight(in Input) *flight[S] {
	in.Data = slices.Clone(in.Data)
	f := &flight[S]{visit: v, ctx: v.ctx, input: in}
	if in.RequestID != "" {
		f.id = runID(v.Key, v.Born, in)
	} else {
		f.id = v.Fence.Nonce // unique, no secret, and a claim begins one such run at most
	}
	if v.Snapshots != nil {
		f.run = &snapshot.Run{
			Key: v.runKey(), ID: f.id, RequestID: in.RequestID, Attempt: 1, Status: snapshot.Running, Fence: v.Fence,
		}
	}
	f.memo = memo{V: payloadVersion, Input: storedInput{Text: in.Text}}
	if len(in.Data) > 0 {
		f.memo.Input.Data = json.RawMessage(compact(in.Data))
	}
	return f
}

// resumed is the run that was found in flight, and is ours now.
func (v *visit[S]) resumed(r snapshot.Run) *flight[S] {
	r.Fence = v.Fence
	r.Status, r.Error, r.NotBefore = snapshot.Running, "", time.Time{}
	return &flight[S]{visit: v, ctx: v.ctx, id: r.ID, run: &r, recorded: true}
}

// open makes the turn and records it as in flight. It returns the run that is in flight already, if there is one.
func (f *flight[S]) open() (found *snapshot.Run, err error) {
	f.index = f.next()
	f.held.atWork(f.id)
	f.trace(false)
	if err := f.build(); err != nil {
		if errors.Is(err, errStuck) {
			f.giveUp()
		}
		return nil, err
	}
	if err := f.ended(f.ctx); err != nil {
		return nil, f.err("begin", err)
	}
	if f.Snapshots == nil {
		f.emit(Event{Kind: TurnStarted})
		return nil, nil
	}
	f.run.Payload = f.memo.encode()
	err = f.once(f.ctx, func(ctx context.Context) (err error) {
		found, err = f.Snapshots.Begin(ctx, *f.run)
		return err
	})
	switch {
	case err == nil && found == nil:
		f.recorded, f.saved = true, &saved{*f.run, f.memo}
		f.meters.inFlight(1)
		f.emit(Event{Kind: TurnStarted})
	case err != nil && !answered(err), errors.Is(err, lock.ErrFenced):
		err = f.err("begin", indeterminate(err)) // it is not repeated: what comes late could revive a run that has ended
		f.emit(Event{Kind: TurnLeft, Err: err})
	case err != nil:
		err = f.err("begin", err)
	}
	return found, err
}

// build makes the turn as it starts, unless it is made already and nothing has settled since.
func (f *flight[S]) build() error {
	if f.built && (f.run == nil || f.run.Base == f.base()) {
		return nil
	}
	if err := f.gather(); err != nil {
		return err
	}
	return f.enter()
}

// gather takes the newest state, and the history.
func (f *flight[S]) gather() error {
	if err := f.newest(); err != nil {
		return f.err("drift", err)
	}
	f.memo.State = nil
	f.number()
	f.memo.Born, f.memo.Signature, f.memo.Version = f.Born, f.signature, f.version
	if err := f.recall(); err != nil {
		return f.err("begin", err)
	}
	return nil
}

// newest makes the state of the newest turn that of this one.
func (f *flight[S]) newest() (err error) {
	var state S
	if f.last != nil {
		state, err = f.o.restore(f.ctx, *f.last, f.call.force)
	}
	f.state = state
	return err
}

// enter runs Definition.Begin. If the state is still that of the newest turn, to the letter, it is not saved again.
func (f *flight[S]) enter() error {
	hook := f.o.def.Begin
	if hook != nil {
		if err := f.hook(f.ctx, hook); err != nil {
			return f.err("begin", err)
		}
	}
	if hook != nil || f.last != nil && !f.wrote(f.last.Signature, f.last.Version) {
		if err := f.keep(); err != nil {
			return f.err("begin", err)
		}
	}
	f.built = true
	return nil
}

// number makes the run the session's next turn.
func (f *flight[S]) number() {
	f.index = f.next()
	if f.run != nil {
		f.run.Turn, f.run.Base = f.index, f.base()
	}
}

// recall loads the history.
func (f *flight[S]) recall() error {
	if f.History == nil {
		return nil
	}
	return f.engine.run(f.ctx, func(ctx context.Context) (err error) {
		h, err := f.History(ctx, f.Session)
		if err == nil {
			f.history = h
		}
		return err
	})
}

// keep makes the state what is saved next.
func (f *flight[S]) keep() error {
	if f.Snapshots == nil {
		return nil
	}
	raw, err := encode(&f.state)
	if err == nil {
		f.memo.State = raw
	}
	return err
}

// ready makes a flight of a run that was adopted: it goes on where it was saved, or starts over from its input if another
// turn has settled since.
func (f *flight[S]) ready() error {
	f.index = f.next()
	f.held.atWork(f.id)
	if err := f.load(); err != nil {
		if f.call.alone && f.saved != nil {
			return f.retryLater(f.err("drift", err))
		}
		return f.left(f.err("drift", err))
	}
	f.trace(true)
	f.emit(Event{Kind: TurnResumed})
	if f.run.Base == f.base() {
		f.number()
		if err := f.recall(); err != nil {
			return f.leave(f.err("begin", err))
		}
		return nil
	}
	f.memo.Iteration, f.memo.Next, f.memo.Done, f.memo.Feedback, f.memo.Steps = 0, nil, nil, "", nil
	f.ran = nil
	if err := f.gather(); err != nil {
		return f.leave(f.mine(err))
	}
	if err := f.enter(); err != nil {
		return f.unsettled(err)
	}
	if err := f.put(func(*snapshot.Run) {}); err != nil {
		return f.unsettled(f.err("save", err))
	}
	return nil
}

// load reads what the run was saved with.
func (f *flight[S]) load() (err error) {
	if f.memo, err = decodeMemo(f.run.Payload); err != nil {
		return err
	}
	f.saved = &saved{*f.run, f.memo}
	f.input = f.memo.Input.input(f.run.RequestID)
	f.meter.used = Usage(f.memo.Usage)
	for _, s := range f.memo.Steps {
		f.ran = append(f.ran, s.Intents...)
	}
	switch {
	case f.memo.State != nil:
		f.state, err = f.o.restore(f.ctx, stored(*f.run, f.memo), f.call.force)
	case f.run.Base == f.base():
		err = f.newest()
	}
	if err != nil {
		return err
	}
	if !f.wrote(f.memo.Signature, f.memo.Version) {
		f.memo.Signature, f.memo.Version = f.signature, f.version
		f.memo.Done = nil // of the states of the old definition
		if f.memo.Next != nil && f.unknown(f.memo.Next.Intents) != "" {
			f.memo.Next = nil
		}
		if f.memo.State != nil {
			return f.keep()
		}
	}
	for i, done := range f.memo.Done { // a store gives back an equal value, and merging compares bytes
		if f.memo.Done[i].State, err = normal[S](done.State); err != nil {
			return err
		}
	}
	return nil
}

// unknown returns the first that is no intent.
func (f *flight[S]) unknown(intents []string) string {
	for _, name := range intents {
		if _, known := f.o.def.Intents[name]; !known {
			return name
		}
	}
	return ""
}

// turn is what a function of the bot sees.
func (f *flight[S]) turn(intent string, attempt int, state S) *Turn[S] {
	in := f.input
	in.Data = slices.Clone(in.Data)
	wired := &struct { // in one piece
		Turn[S]
		line line
	}{
		Turn[S]{
			Session: f.Session, Index: f.index, Iteration: f.memo.Iteration, RunID: f.id, Input: in, State: state,
			History: f.history, Choices: f.o.choices, Ran: slices.Clone(f.ran), Feedback: f.memo.Feedback,
		},
		line{meter: &f.meter, home: f, intent: intent, attempt: attempt},
	}
	wired.Turn.line = &wired.line
	return &wired.Turn
}

// hook runs Begin, or another that decides nothing, on the turn's own state.
func (f *flight[S]) hook(ctx context.Context, fn func(context.Context, *Turn[S]) error) error {
	t := f.turn("", 0, f.state)
	defer t.line.end()
	if err := f.engine.run(ctx, func(ctx context.Context) error { return fn(ctx, t) }); err != nil {
		return err
	}
	f.state = t.State
	return nil
}

func (f *flight[S]) emit(ev Event) {
	ev.RunID, ev.Turn, ev.Iteration = f.id, f.index, f.memo.Iteration
	if ev.Kind.outcome() != "" {
		if !f.began.IsZero() {
			ev.Took = time.Since(f.began)
		}
		f.endTrace(ev)
	}
	f.call.emit(ev)
}

// err is an error of this run.
func (f *flight[S]) err(op string, err error) *Error {
	return &Error{Op: op, Session: f.Session, Turn: f.index, RunID: f.id, Usage: f.meter.total(), Err: err}
}

// mine is err as an error of this run, which most are already.
func (f *flight[S]) mine(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return f.err("settle", err)
}

// errNotSaved marks an error of the snapshot store: the run is as it was saved last.
var errNotSaved = errors.New("not saved")

// put writes the run as memo has it. It may be repeated, each content has a number of its own.
func (f *flight[S]) put(change func(*snapshot.Run)) error {
	f.run.Seq++
	r := *f.run
	change(&r)
	f.memo.Usage = storedUsage(f.meter.total())
	r.Payload = f.memo.encode()
	_, err := f.persist(f.ctx, func(ctx context.Context) error { return f.Snapshots.Save(ctx, r) })
	switch {
	case err == nil:
		*f.run, f.saved = r, &saved{r, f.memo}
		return nil
	case invalid(err):
		return err
	case errors.Is(err, lock.ErrFenced):
		f.lose(lock.ErrFenced)
	}
	return fmt.Errorf("%w: %w", errNotSaved, err)
}

// rewind goes back to what was saved last, save, if fan is set, for the branches that have finished since.
func (f *flight[S]) rewind(fan bool) {
	seq, done, next, state := f.run.Seq, f.memo.Done, f.memo.Next, f.memo.State
	fan = fan && len(done) > 0 && f.memo.Iteration == f.saved.memo.Iteration
	*f.run, f.memo = f.saved.run, f.saved.memo
	f.run.Seq = seq
	if fan {
		f.memo.Done, f.memo.Next, f.memo.State = done, next, state
	}
}

// ended returns why ctx, or the session, is over.
func (f *flight[S]) ended(ctx context.Context) error {
	if err := f.lost(); err != nil {
		return err
	}
	return ctxcause.Of(ctx)
}
