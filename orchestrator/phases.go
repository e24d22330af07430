package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// phases tell the turn log what the runs of a visit pass. Without a turn log they do nothing.
type phases struct {
	engine *engine
	own    *owned

	mu sync.Mutex // protects following field

	// last is the time of the last entry, in milliseconds.
	last int64
}

func (p *phases) on() bool { return p.engine.turnLog != nil }

// tick returns the time of the next entry. It comes from the fence, and is later than the time of the entry before. It
// is also later than the claim: until then another owner may have recorded entries.
func (p *phases) tick() int64 {
	if !p.on() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.own.Clock(), p.last+1, p.claim()+1)
	return p.last
}

// newest returns the time of the last entry.
func (p *phases) newest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// claimed returns the time of the claim that begins a run.
func (p *phases) claimed() int64 {
	if !p.on() {
		return 0
	}
	at := p.claim()
	p.after(at)
	return at
}

func (p *phases) claim() int64 { return time.UnixMicro(p.own.Grant.Fence.Epoch).UnixMilli() }

// after makes the times of later entries later than at.
func (p *phases) after(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, at)
}

// catchUp waits until the clock of the fence has passed the last entry, for Limits.SettleTimeout at most. Entries that
// came faster than one a millisecond are ahead of that clock. The process that goes on with the run then records later.
func (p *phases) catchUp() {
	if ahead := p.newest() - p.own.Clock(); ahead >= 0 {
		time.Sleep(min(time.Duration(ahead+1)*time.Millisecond, p.engine.options.Limits.SettleTimeout))
	}
}

// goOn makes the times of later entries later than those that the record of a run has.
func (p *phases) goOn(r snapshot.Run, payload runPayload) {
	p.after(max(startedAt(r, payload), payload.Logged))
}

// startedAt returns the time of Started. A run that began without a turn log has one all the same.
func startedAt(r snapshot.Run, payload runPayload) int64 {
	return cmp.Or(payload.Started, r.StartedAt.UnixMilli())
}

// record records an entry of a run. A state that is a json.RawMessage is from phaseState.
func (p *phases) record(ctx context.Context, r snapshot.Run, phase string, at int64, state any) error {
	raw, encoded := state.(json.RawMessage)
	if !encoded {
		var err error
		if raw, err = phaseState(state); err != nil {
			return fmt.Errorf("%w: %w", errNotLogged, err)
		}
	}
	return p.enter(ctx, entryOf(r, phase, at, raw))
}

// entryOf returns an entry of a run.
func entryOf(r snapshot.Run, phase string, at int64, state json.RawMessage) turnlog.Entry {
	return turnlog.Entry{
		Run: r.ID, Turn: r.Turn, Orchestrator: r.Orchestrator, Session: r.Session,
		Phase: phase, State: state, At: time.UnixMilli(at).UTC(),
	}
}

// enter records an entry.
func (p *phases) enter(ctx context.Context, e turnlog.Entry) error {
	_, err := p.own.Persist(ctx, func(ctx context.Context) error { return p.engine.turnLog.Record(ctx, e) })
	if panic, ok := errors.AsType[*PanicError](err); ok {
		p.engine.functions.tell(ctx, "turn log panicked", panic)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNotLogged, err)
	}
	return nil
}

// mostTries bounds how often an entry looks for a time that no other entry has.
const mostTries = 100

// enterAnew records an entry. If an owner before or after this one has recorded another in the same millisecond, the
// entry gets the next time that tick returns.
func (p *phases) enterAnew(ctx context.Context, e turnlog.Entry) (err error) {
	for range mostTries {
		if err = p.enter(ctx, e); !errors.Is(err, turnlog.ErrChanged) {
			break
		}
		e.At = time.UnixMilli(p.tick()).UTC()
	}
	return err
}

// repeat records an entry whose time is stored, so that an earlier owner may have recorded it. If another version of
// the program has made another state of it then, that one stays.
func (p *phases) repeat(ctx context.Context, r snapshot.Run, phase string, at int64, state any) error {
	err := p.record(ctx, r, phase, at, state)
	if errors.Is(err, turnlog.ErrChanged) {
		return nil
	}
	return err
}

// phaseState returns the JSON of a state.
func phaseState(state any) (json.RawMessage, error) {
	raw, err := encode(&state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", turnlog.ErrState, err)
	}
	return raw, nil
}

// mostWeight bounds what an entry of the engine weighs, as package jsonvalue weighs documents. An entry may be recorded
// by each owner of a run, and a log compares it with the one that it has. So none costs much more than a text of
// turnlog.MaxState does. A list of that many bytes costs ten times as much.
const mostWeight = 10_000_000

// loggable returns an error if an entry of the engine must not have this state. Another process with the same state
// gets the same error.
func loggable(state json.RawMessage) error {
	return jsonvalue.CheckWithin(state, jsonvalue.Bounds{Size: turnlog.MaxState, Memory: mostWeight})
}

// abandonedInput is the Cut of a run that is ended from outside. Mostly its owner has recorded the beginning, and that
// entry stays.
const abandonedInput = "input left out: the run was abandoned before its beginning was recorded"

// started records that a run has begun. If cut is not "", it says why the input is left out. An input that is too large
// or weighs too much is left out too.
func (p *phases) started(ctx context.Context, r snapshot.Run, payload runPayload, cut string) error {
	at := startedAt(r, payload)
	state := turnlog.StartedState{
		Actor: r.Orchestrator, Slot: lock.Key(r.Orchestrator, r.Session), Kind: payload.Input.Kind, Cut: cut,
	}
	if d := p.engine.options.Limits.TurnTimeout; d > 0 {
		state.ExpiresAt = time.UnixMilli(at).Add(d)
	}
	if cut == "" {
		whole, err := payload.Input.logged(state)
		if err == nil {
			return p.repeat(ctx, r, turnlog.Started, at, whole)
		}
		state.Cut = "input left out: " + err.Error()
	}
	return p.repeat(ctx, r, turnlog.Started, at, state)
}

// logged returns the state of Started with the input in it.
func (in storedInput) logged(state turnlog.StartedState) (json.RawMessage, error) {
	if !certain(in.Data, turnlog.MaxState) {
		if err := loggable(in.Data); err != nil { // before it is copied
			return nil, err
		}
	}
	state.Data = in.Data
	if in.Text != "" {
		said, err := phaseState(message.User(in.Text))
		if err != nil {
			return nil, err
		}
		state.Messages = []json.RawMessage{said}
	}
	raw, err := phaseState(state)
	if err == nil && !certain(raw, turnlog.MaxState) {
		err = loggable(raw) // a process without a turn log may have taken the input
	}
	return raw, err
}

// settled records that a turn has settled. If a process without a turn log has settled it, its time is that of the
// checkpoint store, after the beginning.
func (p *phases) settled(ctx context.Context, cp checkpoint.Checkpoint, began int64, force bool) error {
	if !p.on() {
		return nil
	}
	end, err := p.endOfTurn(ctx, cp, began, force)
	if err != nil {
		return err
	}
	r := snapshot.Run{Key: p.own.Grant.Key, ID: cp.RunID, Turn: cp.Turn}
	return p.repeat(ctx, r, turnlog.Settled, end.At.UnixMilli(), end.State)
}

// endOfTurn returns the last entry of a turn that settles, or has settled. With force, Definition.Respond gets the turn
// although this process would lose something of it.
func (p *phases) endOfTurn(
	ctx context.Context, cp checkpoint.Checkpoint, began int64, force bool,
) (end snapshot.End, err error) {
	var payload turnPayload
	_ = json.Unmarshal(cp.Payload, &payload) // else the turn has no time of Settled
	end.At = time.UnixMilli(cmp.Or(payload.Settled, max(cp.SavedAt.UnixMilli(), began+1))).UTC()
	state := turnlog.SettledState{TurnState: turnlog.Complete, Respond: cp.State}
	if payload.Failed != "" {
		state.Reason = "failed: " + payload.Failed
	}
	if respond := p.engine.respond; respond != nil {
		if state.Respond, err = respond(ctx, p.own.Grant.Session, cp, force); isDrift(err) {
			return end, fmt.Errorf("%w: %w", errNotLogged, err) // another process can read the turn
		} else if err != nil {
			state.Reason = "Definition.Respond: " + p.engine.options.LogError(err)
		}
	}
	end.State, err = phaseState(state)
	if err == nil {
		err = loggable(end.State)
	}
	if err != nil { // the turn settles, so its end is recorded without the reply
		state.Respond = nil
		state.Reason = "complete; the reply is left out: " + p.engine.options.LogError(err)
		end.State, err = phaseState(state)
	}
	return end, err
}

// end returns how a run ends now, for what is saved as its end.
func (p *phases) end(turnState string) storedEnd {
	return storedEnd{At: p.tick(), TurnState: turnState}
}

// parts returns the parts that a run which has ended is saved with.
func (e storedEnd) parts() map[string]json.RawMessage {
	if e.At == 0 {
		return nil
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return nil
	}
	return map[string]json.RawMessage{endPart: raw}
}

// ended records the end of a run that has not settled and is saved as Ended. Its Error is the reason.
func (p *phases) ended(ctx context.Context, r snapshot.Run, e storedEnd) error {
	if !p.on() {
		return nil
	}
	p.after(e.At)
	if r.RequestID != "" { // the run begins anew if its input comes again
		defer p.catchUp()
	}
	return p.repeat(ctx, r, turnlog.Settled, e.At, turnlog.SettledState{TurnState: e.TurnState, Reason: r.Error})
}

// endOf returns how a run has ended that is saved as Ended. A process without a turn log has stored no time.
func endOf(r snapshot.Run, payload runPayload) storedEnd {
	var e storedEnd
	if json.Unmarshal(r.Parts[endPart], &e) == nil && e.At > 0 && e.TurnState != "" {
		return e
	}
	e = storedEnd{At: max(r.SavedAt.UnixMilli(), startedAt(r, payload)+1, payload.Logged+1), TurnState: turnlog.Failed}
	if r.Error == ErrAbandoned.Error() {
		e.TurnState = turnlog.Cancelled
	}
	return e
}
