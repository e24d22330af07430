package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A flight is a run that this process takes to its end.
type flight[S any] struct {
	*visit[S]

	// ctx is the context of the session, with the span of the turn.
	ctx    context.Context
	tracer tracer
	id     string

	// index is the number of the turn that the run will be.
	index int
	input Input

	// run is the run as last saved, or as it is about to be; nil without a snapshot store. Its documents are not in it.
	run  *snapshot.Run
	memo memo // the decoded Payload; State is nil if it equals the newest turn's

	// parts are the parts of a run that was adopted.
	parts map[string]json.RawMessage

	// recorded says that the snapshot store has the run.
	recorded bool

	// saved is the last save; nil if there is none.
	saved *saved

	// built says that state and history belong to this turn.
	built bool

	// looked says that it is known whether an earlier call has begun the run.
	looked bool

	// worked says that a function of the bot has run since the last progress was saved.
	worked bool
	final  bool // nothing follows in this call
	began  time.Time

	// limit is ctx, with the time that the turn may take.
	limit context.Context
	stop  context.CancelFunc

	state   S
	fan     *fan // the current fan-out; nil: none
	history []message.Message
	ran     []string

	// reasons say why each step was decided. There may be fewer reasons than steps.
	reasons []string
	meter   meter
}

// saved is the newest version of the run that the snapshot store is known to have.
type saved struct {
	run  snapshot.Run
	memo memo
	used storedUsage
}

// newFlight returns the run of a new input. If the input has come before, it returns the same run as before.
func (v *visit[S]) newFlight(in Input) *flight[S] {
	in.Data = slices.Clone(in.Data)
	f := &flight[S]{visit: v, ctx: v.own.Ctx, limit: v.own.Ctx, input: in}
	if in.RequestID != "" {
		f.id = runID(v.own.Key, v.own.Born, in)
	} else {
		f.id = v.own.Fence.Nonce // unique and no secret; a claim begins one such run at most
	}
	if v.Snapshots != nil {
		f.run = &snapshot.Run{
			Key: snapshot.Key(v.own.Key), ID: f.id, RequestID: in.RequestID, Attempt: 1, Status: snapshot.Running,
			Fence: v.own.Fence,
		}
	}
	f.memo = memo{V: payloadVersion, Input: storedInput{Text: in.Text}}
	if len(in.Data) > 0 {
		f.memo.Input.Data = json.RawMessage(compact(in.Data))
	}
	return f
}

// renamed gives f its id in the life of the session that own.Born now names.
func (f *flight[S]) renamed() {
	f.memo.Born = f.own.Born
	if f.input.RequestID == "" {
		return
	}
	f.id = runID(f.own.Key, f.own.Born, f.input)
	f.run.ID = f.id
}

// resumed returns the flight of a run that was found in flight and is ours now.
func (v *visit[S]) resumed(r snapshot.Run) *flight[S] {
	r.Fence = v.own.Fence
	r.Status, r.Error, r.Pause = snapshot.Running, "", 0
	f := &flight[S]{visit: v, ctx: v.own.Ctx, limit: v.own.Ctx, id: r.ID, run: &r, parts: r.Parts, recorded: true}
	r.Parts = nil
	return f
}

// begin starts the time of Limits.TurnTimeout. It comes before the first function of the bot.
func (f *flight[S]) begin() {
	f.end()
	f.limit = f.ctx
	if d := f.Limits.TurnTimeout; d > 0 {
		f.limit, f.stop = context.WithTimeoutCause(f.ctx, d, errTurnTimeout)
	}
}

// end stops the time of Limits.TurnTimeout.
func (f *flight[S]) end() {
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// open builds the turn and saves the run as in flight. If a run is in flight already, open returns that run.
func (f *flight[S]) open() (found *snapshot.Run, err error) {
	f.index = f.next()
	f.own.AtWork(f.id)
	f.trace(false)
	if found, err = f.begunBefore(); found != nil || err != nil {
		return found, err
	}
	f.begin()
	if err := f.build(); err != nil {
		if errors.Is(err, errStuck) {
			f.giveUp()
		}
		return nil, err
	}
	if err := f.ended(f.limit); err != nil {
		return nil, f.err("begin", err)
	}
	if f.Snapshots == nil {
		f.own.Begun = true
		f.emit(Event{Kind: TurnStarted})
		return nil, nil
	}
	if err := f.freshFence(); err != nil {
		return nil, err
	}
	f.spent, f.own.Begun = true, true
	f.memo.Usage = storedUsage(f.meter.total())
	f.run.Fence = f.own.Fence
	r := *f.run
	r.Payload, r.Parts = f.memo.documents(inlineState)
	// Begin is asked once, so what a store would refuse is divided before.
	if f.memo.State != nil && !certain(r.Payload, jsonvalue.MaxSize) && jsonvalue.Check(r.Payload) != nil {
		r.Payload, r.Parts = f.memo.documents(0)
	}
	err = f.own.Once(f.ctx, func(ctx context.Context) (err error) {
		found, err = f.Snapshots.Begin(ctx, r)
		return err
	})
	switch {
	case err == nil && found == nil:
		f.recorded, f.saved = true, &saved{*f.run, f.memo, f.memo.Usage}
		f.meters.inFlight(1)
		f.emit(Event{Kind: TurnStarted})
	case err != nil && !owner.Definite(err), errors.Is(err, lock.ErrFenced):
		if errors.Is(err, lock.ErrFenced) {
			f.own.Lose(lock.ErrFenced)
		}
		err = f.err("begin", indeterminate(err)) // Begin is sent once; if it took effect, a drain finishes the run
		f.emit(Event{Kind: TurnLeft, Err: err})
	case err != nil:
		f.own.Begun = false
		err = f.err("begin", err)
	default:
		f.own.Begun = false // the run in flight is of an earlier life, if ours is the first claim
	}
	return found, err
}

// begunBefore returns the run of the call's request id, if an earlier call has begun that run. Definition.Begin has run
// for it, and does not run again on the same state. A bot without Definition.Begin learns of the run from the snapshot
// store's Begin.
func (f *flight[S]) begunBefore() (*snapshot.Run, error) {
	if f.looked || f.o.def.Begin == nil || f.Snapshots == nil || f.input.RequestID == "" {
		return nil, nil
	}
	f.looked = true
	found, err := f.o.inFlight(f.ctx, f.own.Session)
	if err != nil {
		return nil, f.err("begin", err)
	}
	if found == nil {
		return nil, nil
	}
	if err := f.meet(*found, f); err != nil {
		return nil, f.err("begin", err)
	}
	if found.ID != f.id {
		return nil, nil
	}
	return found, nil
}

// build makes the turn as it starts. If the turn is made already and nothing has settled since, build does nothing.
func (f *flight[S]) build() error {
	if f.built && (f.run == nil || f.run.Base == f.base()) {
		return nil
	}
	if err := f.gather(); err != nil {
		return err
	}
	return f.enter()
}

// gather reads the newest state and the history.
func (f *flight[S]) gather() error {
	if err := f.newest(); err != nil {
		return f.err("drift", err)
	}
	f.memo.State = nil
	f.number()
	f.memo.Born, f.memo.Signature, f.memo.Version = f.own.Born, f.signature, f.version
	if err := f.recall(); err != nil {
		return f.err("begin", err)
	}
	return nil
}

// newest makes the state of the newest turn the state of this turn.
func (f *flight[S]) newest() (err error) {
	var state S
	if f.last != nil {
		state, err = f.o.restore(f.ctx, *f.last, f.call.force)
	}
	f.state = state
	return err
}

// enter runs Definition.Begin. If neither Begin nor a migration can have changed the state of the newest turn, the
// state is not saved again.
func (f *flight[S]) enter() error {
	hook := f.o.def.Begin
	if hook != nil {
		if err := f.hook(f.limit, hook); err != nil {
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
	f.worked = true
	return f.engine.run(f.limit, func(ctx context.Context) (err error) {
		h, err := f.History(ctx, f.own.Session)
		if err == nil {
			f.history = h
		}
		return err
	})
}

// keep makes the state part of the next save.
func (f *flight[S]) keep() error {
	if f.Snapshots == nil {
		return nil
	}
	raw, err := encodeState(f.engine, &f.state)
	if err == nil {
		f.memo.State = raw
	}
	return err
}

// ready prepares a run that was adopted. The run goes on where it was saved. If another turn has settled since, the run
// starts over from its input.
func (f *flight[S]) ready() error {
	f.index = f.next()
	f.own.AtWork(f.id)
	if err := f.load(); err != nil {
		if f.call.alone && f.saved != nil {
			return f.retryLater(f.err("drift", err))
		}
		return f.left(f.err("drift", err))
	}
	f.trace(true)
	f.begin()
	f.emit(Event{Kind: TurnResumed})
	if f.run.Base == f.base() {
		f.number()
		if err := f.recall(); err != nil {
			return f.leave(f.err("begin", err))
		}
		return nil
	}
	f.memo.Iteration, f.memo.Next, f.memo.Feedback, f.memo.Steps = 0, nil, "", nil
	f.ran, f.fan = nil, nil
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

// load reads the documents of the run.
func (f *flight[S]) load() (err error) {
	if f.memo, err = f.o.readMemo(*f.run); err != nil {
		return err
	}
	if f.memo.State == nil {
		f.memo.State = f.parts[statePart]
	}
	used, err := storedPart(f, usagePart, f.memo.Usage)
	if err != nil {
		return err
	}
	f.run.Payload = nil
	f.saved = &saved{*f.run, f.memo, used}
	f.input = f.memo.Input.input(f.run.RequestID)
	f.meter.used = Usage(used)
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
		if f.memo.Next != nil && !f.o.knows(f.memo.Next.Intents) {
			f.memo.Next = nil
		}
		if f.memo.State != nil {
			return f.keep()
		}
		return nil // a fan-out of the old definition begins again
	}
	return f.loadFan()
}

// loadFan restores the fan-out that the run was saved in.
func (f *flight[S]) loadFan() error {
	found, err := storedPart(f, fanPart, storedFan{Iteration: -1})
	if err != nil || found.Iteration != f.memo.Iteration {
		return err
	}
	if !found.Next.intact(2) || !f.o.knows(found.Next.Intents) {
		return damagedRun(*f.run, "part %q: no decision for several intents", fanPart)
	}
	f.fan = newFan(found)
	f.fan.stored = true
	if found.State != nil {
		if f.state, err = decode[S](found.State); err != nil {
			return err
		}
	}
	for i, intent := range found.Next.Intents {
		b, err := storedPart(f, branchName(i), storedBranch{})
		if err == nil && len(b.Change.Fields) > 0 && len(b.Change.State) == 0 {
			err = damagedRun(*f.run, "part %q: fields without a state", branchName(i))
		}
		if err != nil {
			return err
		}
		if b.Intent == intent { // another version may have put another branch in this place
			f.fan.done[i] = b
			f.fan.saved[i] = true
		}
	}
	f.memo.Next = &found.Next
	return nil
}

// storedPart decodes a part of the run of f; absent is returned if the run has no such part.
func storedPart[T, S any](f *flight[S], name string, absent T) (T, error) {
	raw := f.parts[name]
	if raw == nil {
		return absent, nil
	}
	var part T
	if err := json.Unmarshal(raw, &part); err != nil {
		return absent, damagedRun(*f.run, "part %q: %w", name, unread(err))
	}
	return part, nil
}

// unknown returns the first name that is no intent, if there is one.
func (o *Orchestrator[S]) unknown(intents []string) (name string, found bool) {
	for _, name := range intents {
		if _, known := o.def.Intents[name]; !known {
			return name, true
		}
	}
	return "", false
}

func (o *Orchestrator[S]) knows(intents []string) bool {
	_, unknown := o.unknown(intents)
	return !unknown
}

// readMemo is decodeMemo for a caller that goes on with the run. If this very definition wrote the run, the decision
// must name intents of this definition.
func (o *Orchestrator[S]) readMemo(r snapshot.Run) (memo, error) {
	m, err := decodeMemo(r)
	if err == nil && m.Next != nil && o.wrote(m.Signature, m.Version) && !o.knows(m.Next.Intents) {
		err = damagedRun(r, "payload: the decision names what is no intent")
	}
	return m, err
}

// turn returns the argument of a function of the bot.
func (f *flight[S]) turn(intent string, attempt int, state S) *Turn[S] {
	in := f.input
	in.Data = slices.Clone(in.Data)
	wired := &struct { // in one piece
		Turn[S]
		line line
	}{
		Turn[S]{
			Session: f.own.Session, Index: f.index, Iteration: f.memo.Iteration, RunID: f.id, Input: in, State: state,
			History: f.history, Choices: f.o.choices, Ran: slices.Clone(f.ran), Feedback: f.memo.Feedback,
		},
		line{meter: &f.meter, home: f, intent: intent, attempt: attempt},
	}
	wired.Turn.line = &wired.line
	return &wired.Turn
}

// hook runs Begin, Route or Evaluate on the turn's own state, unless ctx or the session is over.
func (f *flight[S]) hook(ctx context.Context, fn func(context.Context, *Turn[S]) error) error {
	if err := f.ended(ctx); err != nil {
		return err
	}
	f.worked = true
	t := f.turn("", 0, f.state)
	ctx = withLine(ctx, t.line)
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

// err returns err as an error of this run.
func (f *flight[S]) err(op string, err error) *Error {
	return &Error{Op: op, Session: f.own.Session, Turn: f.index, RunID: f.id, Usage: f.meter.total(), Err: err}
}

// mine returns err as an error of this run. Most errors are one already.
func (f *flight[S]) mine(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return f.err("settle", err)
}

// errNotSaved marks an error of the snapshot store: the run is as it was last saved.
var errNotSaved = errors.New("not saved")

// put saves the run with its current decision, steps and state, in place of everything that was saved before.
func (f *flight[S]) put(change func(*snapshot.Run)) error {
	r := *f.run
	change(&r)
	f.memo.Usage = storedUsage(f.meter.total())
	r.Payload, r.Parts = f.memo.documents(inlineState)
	err := f.save(r, f.memo, f.memo.Usage)
	if invalid(err) && f.memo.State != nil && r.Parts == nil { // too large for one document may fit into two
		r.Payload, r.Parts = f.memo.documents(0)
		err = f.save(r, f.memo, f.memo.Usage)
	}
	if err != nil {
		return err
	}
	*f.run = f.saved.run
	return nil
}

// note saves a change of the run, and parts, beside the last save. It writes only the change, the parts and the usage.
func (f *flight[S]) note(parts map[string]json.RawMessage, change func(*snapshot.Run)) error {
	r := f.saved.run
	change(&r)
	used := storedUsage(f.meter.total())
	if used != f.saved.used {
		raw, err := json.Marshal(used)
		if err != nil {
			return err
		}
		all := map[string]json.RawMessage{usagePart: raw}
		maps.Copy(all, parts)
		parts = all
	}
	r.Parts = parts
	if err := f.save(r, f.saved.memo, used); err != nil {
		return err
	}
	f.run.Attempt = r.Attempt
	return nil
}

// save writes a version of the run. The version has a number of its own, so that the write may be repeated.
func (f *flight[S]) save(r snapshot.Run, m memo, used storedUsage) error {
	f.run.Seq++
	r.Seq = f.run.Seq
	_, err := f.own.Persist(f.ctx, func(ctx context.Context) error { return f.Snapshots.Save(ctx, r) })
	switch {
	case err == nil:
		r.Payload, r.Parts = nil, nil
		f.saved = &saved{r, m, used}
		return nil
	case invalid(err):
		return err
	case errors.Is(err, lock.ErrFenced):
		f.own.Lose(lock.ErrFenced)
	}
	return fmt.Errorf("%w: %w", errNotSaved, err)
}

// ended returns why ctx or the session is over.
func (f *flight[S]) ended(ctx context.Context) error {
	if err := f.own.Lost(); err != nil {
		return err
	}
	return ctxcause.Of(ctx)
}
