package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run is a turn in flight, with what is saved of it.
type run struct {
	slot *slot

	// row is the run as last saved, or as it is about to be. Its documents are not in it. Without a snapshot store it
	// is not saved.
	row snapshot.Run

	// payload is the decoded payload, as it is about to be saved; its State is nil if it equals the newest turn's.
	payload runPayload

	// parts are the parts of a run that was adopted.
	parts map[string]json.RawMessage
	meter meter

	// decision is what runs in this iteration; nil before it is decided, and without a snapshot store.
	decision atomic.Pointer[decision]
	fan      *fan // the fan-out of this iteration; nil: none

	// inStore says that the snapshot store has the run.
	inStore bool

	// before is the state of the newest turn; nil if there is none.
	before json.RawMessage

	// mu is held while a version is saved, or outcomes are recorded. An effect may save the decision while a branch is
	// saved, or while the engine goes on without the goroutine that has named the effect.
	mu gate

	// cargo is what the next save carries.
	cargo cargo

	// stored is the newest version that the snapshot store is known to have; nil if there is none. Only who begins or
	// loads the run may read it without mu.
	stored *version
}

// A gate is a lock that may be held for long. In a test with a fake clock, time goes on while others wait for it.
type gate struct {
	once sync.Once
	in   chan struct{}
}

func (g *gate) Lock() {
	g.once.Do(func() { g.in = make(chan struct{}, 1) })
	g.in <- struct{}{}
}

func (g *gate) Unlock() { <-g.in }

// A version is the result of one Save of a run.
type version struct {
	row     snapshot.Run
	payload runPayload
	used    spent
}

// saved returns the newest version that the snapshot store is known to have.
func (r *run) saved() version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.stored
}

// begin saves a run that is new, unless a run is in flight; then it returns that run.
func (r *run) begin(ctx context.Context) (found *snapshot.Run, err error) {
	r.payload.Usage = r.meter.spent().storedUsage
	r.row.Fence = r.slot.own.Grant.Fence
	row := r.row
	if row.Payload, row.Parts, err = r.payload.documents(inlineState); err != nil {
		return nil, err
	}
	// Begin is asked once, so what a store would refuse is divided before.
	if r.payload.State != nil && !certain(row.Payload, jsonvalue.MaxSize) && jsonvalue.Check(row.Payload) != nil {
		if row.Payload, row.Parts, err = r.payload.documents(0); err != nil {
			return nil, err
		}
	}
	found, err = r.slot.begin(ctx, row)
	if err == nil && found == nil {
		r.inStore, r.stored = true, &version{r.row, r.payload, spent{storedUsage: r.payload.Usage}}
	}
	return found, err
}

// put saves the run with its current decision, steps and state, and with parts, in place of everything that was saved
// before. If the stores are joined, the save issues effects too, and issued says that it has: see snapshot.SaveEffects.
func (r *run) put(
	ctx context.Context, parts map[string]json.RawMessage, change func(*snapshot.Run), issue ...ledger.Effect,
) (issued bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row
	change(&row)
	if issued, err = r.replace(ctx, row, &r.payload, parts, issue...); err != nil {
		return false, err
	}
	r.row = r.stored.row
	return issued, nil
}

// amend saves a change of the run, and parts, beside the last save. It writes only the change, the parts and the usage.
func (r *run) amend(
	ctx context.Context, parts map[string]json.RawMessage, change func(*snapshot.Run),
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.stored.row
	change(&row)
	var err error
	used := r.meter.spent()
	if row.Parts, err = withUsage(parts, used, r.stored.used); err != nil {
		return err
	}
	if _, err := r.write(ctx, row, r.stored.payload, used); err != nil {
		return err
	}
	r.row.Attempt = row.Attempt
	return nil
}

// carry issues an effect, and records the outcomes that wait, in a save that changes nothing else. If taken is false,
// it has done neither.
func (r *run) carry(ctx context.Context, e ledger.Effect) (taken bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, used := r.stored.row, r.meter.spent()
	if row.Parts, err = withUsage(nil, used, r.stored.used); err != nil {
		return false, err
	}
	r.row.Seq++
	row.Seq = r.row.Seq
	if taken, err = r.saveEffects(ctx, row, e); taken {
		r.wrote(row, r.stored.payload, used)
	}
	return taken, r.unsaved(err)
}

// record records the outcomes that wait for a save by themselves. An outcome of an owner that is fenced off is taken
// too.
func (r *run) record(ctx context.Context) error {
	if len(r.cargo.all()) == 0 {
		return nil
	}
	r.mu.Lock() // a save may carry them at this moment
	defer r.mu.Unlock()
	return r.recordLate(ctx)
}

// recordLate is record. The caller holds mu.
func (r *run) recordLate(ctx context.Context) error {
	for _, f := range r.cargo.all() {
		var now ledger.Effect
		_, err := r.slot.own.Persist(ctx, func(ctx context.Context) (err error) {
			now, err = r.slot.engine.ledger.Finish(ctx, f.ID, f.Attempt, f.Outcome)
			return err
		})
		if err == nil && f.Outcome.State == ledger.Completed && !sameResult(now, f.Outcome.Result) {
			err = errOtherResult
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errLedger, err)
		}
		r.cargo.recorded([]ledger.Finish{f})
	}
	return nil
}

// errOtherResult says that a person has answered for an effect while it was at work, with another result than the one
// that its function has got. The next attempt gets the recorded one.
var errOtherResult = errors.New("the effect has another result already")

// log records the entries that wait by themselves.
func (r *run) log(ctx context.Context) error {
	if len(r.cargo.noted()) == 0 {
		return nil
	}
	r.mu.Lock() // a save may carry them at this moment
	defer r.mu.Unlock()
	return r.logLate(ctx)
}

// logLate is log. The caller holds mu.
func (r *run) logLate(ctx context.Context) error {
	for _, e := range r.cargo.noted() {
		if err := r.cargo.enter(ctx, e); err != nil {
			return err
		}
		r.cargo.logged(1)
	}
	return nil
}

// sameResult reports whether an effect has this result.
func sameResult(now ledger.Effect, result json.RawMessage) bool {
	a, errA := jsonvalue.Canonical(now.Result)
	b, errB := jsonvalue.Canonical(result)
	return now.State == ledger.Completed && errA == nil && errB == nil && bytes.Equal(a, b)
}

// suspend saves the run with payload and parts. Everything else is as last saved.
func (r *run) suspend(
	ctx context.Context, payload runPayload, parts map[string]json.RawMessage,
	change func(*snapshot.Run),
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.stored.row
	change(&row)
	_, err := r.replace(ctx, row, &payload, parts)
	return err
}

// decide saves a decision. Everything else is as last saved. It does nothing if the decision is saved already. It
// issues effects as put does.
func (r *run) decide(ctx context.Context, d *decision, issue ...ledger.Effect) (issued bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	payload := r.stored.payload
	switch {
	case payload.Iteration != d.iteration:
		return false, errOver // the engine has gone on without the goroutine that asks
	case payload.Next != nil:
		return false, nil
	}
	d.into(&payload)
	return r.replace(ctx, r.stored.row, &payload, nil, issue...)
}

// replace saves a payload and parts in place of everything that was saved before. The caller holds mu.
func (r *run) replace(
	ctx context.Context, row snapshot.Run, payload *runPayload, parts map[string]json.RawMessage,
	issue ...ledger.Effect,
) (issued bool, err error) {
	used := r.meter.spent()
	if parts, err = withUsage(parts, used, spent{storedUsage: payload.Usage}); err != nil {
		return false, err
	}
	write := func(inline int) (err error) {
		if row.Payload, row.Parts, err = payload.documents(inline); err != nil {
			return err
		}
		if row.Parts == nil {
			row.Parts = parts
		} else {
			maps.Copy(row.Parts, parts)
		}
		issued, err = r.write(ctx, row, *payload, used, issue...)
		return err
	}
	err = write(inlineState)
	// A payload that is too large for one document may fit into two.
	if invalid(err) && payload.State != nil && len(payload.State) <= inlineState {
		err = write(0)
	}
	return issued, err
}

// withUsage returns parts with the usage of the run among them, unless the store has it as saved.
func withUsage(
	parts map[string]json.RawMessage, used, saved spent,
) (map[string]json.RawMessage, error) {
	if used.same(saved) {
		return parts, nil
	}
	raw, err := json.Marshal(used)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{usagePart: raw}
	maps.Copy(all, parts)
	return all, nil
}

// write saves a version of the run, with the outcomes and entries that wait, and issues effects. The version has a
// number of its own, so that the write may be repeated. If the stores are not joined, or what the save would carry is
// not plain, outcomes and entries are recorded before it, and nothing is issued. The caller holds mu.
func (r *run) write(
	ctx context.Context, row snapshot.Run, payload runPayload, used spent, issue ...ledger.Effect,
) (issued bool, err error) {
	r.row.Seq++
	row.Seq = r.row.Seq
	taken := false
	if len(issue) > 0 || len(r.cargo.all()) > 0 || len(r.cargo.noted()) > 0 {
		if taken, err = r.saveEffects(ctx, row, issue...); err == nil && !taken {
			if err = errors.Join(r.recordLate(ctx), r.logLate(ctx)); err != nil {
				return false, fmt.Errorf("%w: %w", errNotSaved, err)
			}
			r.row.Seq++ // a copy of that save may be under way
			row.Seq = r.row.Seq
		}
	}
	if !taken && err == nil {
		err = r.slot.save(ctx, row)
	}
	if err == nil {
		r.wrote(row, payload, used)
		return taken && len(issue) > 0, nil
	}
	return false, r.unsaved(err)
}

// wrote notes what was saved. The caller holds mu.
func (r *run) wrote(row snapshot.Run, payload runPayload, used spent) {
	row.Payload, row.Parts = nil, nil
	r.stored = &version{row, payload, used}
}

// unsaved returns the error of a save that has failed with err.
func (r *run) unsaved(err error) error {
	switch {
	case err == nil, invalid(err):
		return err
	case errors.Is(err, lock.ErrFenced):
		r.slot.own.Lose(lock.ErrFenced)
	}
	return fmt.Errorf("%w: %w", errNotSaved, err)
}

// saveEffects saves row with the outcomes and entries that wait, and issues effects. If taken is false, it has done
// nothing. The caller holds mu.
func (r *run) saveEffects(ctx context.Context, row snapshot.Run, issue ...ledger.Effect) (taken bool, err error) {
	save := r.slot.engine.carry
	if save == nil {
		return false, nil
	}
	c := snapshot.Cargo{Batch: ledger.Batch{Issue: issue, Finish: r.cargo.all()}, Log: r.cargo.noted()}
	_, err = r.slot.own.Persist(ctx, func(ctx context.Context) (err error) {
		taken, err = save(ctx, row, c)
		return err
	})
	if err != nil {
		return false, err
	}
	if taken {
		r.cargo.recorded(c.Finish)
		r.cargo.logged(len(c.Log))
	}
	return taken, nil
}

// load reads the documents of a run that was adopted. It returns the usage so far.
func (r *run) load(d *identity) (spent, error) {
	payload, err := d.read(r.row)
	if err != nil {
		return spent{}, err
	}
	payload.Doubt, payload.Unasked = nil, false // all were answered, or waved through
	r.payload = payload
	if r.payload.State == nil {
		r.payload.State = r.parts[statePart]
	}
	if err := r.loadItems(r.payload.Next, itemsPart); err != nil {
		return spent{}, err
	}
	used, err := storedPart(r, usagePart, spent{storedUsage: r.payload.Usage})
	if err != nil {
		return spent{}, err
	}
	failures, err := storedPart(r, failuresPart, r.payload.Failures)
	if err != nil {
		return spent{}, err
	}
	r.payload.Failures = max(r.payload.Failures, failures)
	r.row.Payload = nil
	r.stored = &version{r.row, r.payload, used}
	return used, nil
}

// loadFan returns the fan-out that the run was saved in; nil if there is none.
func (r *run) loadFan(d *identity) (*fan, error) {
	found, err := storedPart(r, fanPart, storedFan{Iteration: -1})
	if err != nil || found.Iteration != r.payload.Iteration {
		return nil, err
	}
	several := found.Next.Each != nil || len(distinct(found.Next.Intents)) > 1
	ours := cmp.Or(found.Signature, r.payload.Signature) == d.signature
	if !several || !found.Next.intact() || ours && !d.knows(found.Next.Intents) {
		return nil, damagedRun(r.row, "part %q: no decision for several intents or items", fanPart)
	}
	items := itemsPart
	if found.OwnItems {
		items = fanItems
	}
	if err := r.loadItems(&found.Next, items); err != nil {
		return nil, err
	}
	fan := newFan(found)
	fan.stored = true
	for i, want := range fan.branches {
		b, err := storedPart(r, branchName(i), storedBranch{})
		if err == nil && len(b.Change.Fields) > 0 && len(b.Change.State) == 0 {
			err = damagedRun(r.row, "part %q: fields without a state", branchName(i))
		}
		if err != nil {
			return nil, err
		}
		if b.Intent == want.intent && b.Fan == found.ID { // another version may have put another branch in this place
			fan.done[i] = b
		}
	}
	return fan, nil
}

// loadItems gives a decision the items in a part.
func (r *run) loadItems(n *storedNext, part string) error {
	if n == nil || n.Each == nil {
		return nil
	}
	all, err := storedPart(r, part, itemLists{})
	if err == nil && !n.fill(all) {
		err = damagedRun(r.row, "part %q: not the items of the decision", part)
	}
	return err
}

// storedPart decodes a part of a run; absent is returned if the run has no such part.
func storedPart[T any](r *run, name string, absent T) (T, error) {
	raw := r.parts[name]
	if raw == nil {
		return absent, nil
	}
	var part T
	if err := json.Unmarshal(raw, &part); err != nil {
		return absent, damagedRun(r.row, "part %q: %w", name, unread(err))
	}
	return part, nil
}
