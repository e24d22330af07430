package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
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

	// mu is held while a version is saved. An effect may save the decision while a branch is saved, or while the engine
	// goes on without the goroutine that has named the effect.
	mu sync.Mutex

	// stored is the newest version that the snapshot store is known to have; nil if there is none. Only who begins or
	// loads the run may read it without mu.
	stored *version
}

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
// before.
func (r *run) put(
	ctx context.Context, parts map[string]json.RawMessage, change func(*snapshot.Run),
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.row
	change(&row)
	if err := r.replace(ctx, row, &r.payload, parts); err != nil {
		return err
	}
	r.row = r.stored.row
	return nil
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
	if err := r.write(ctx, row, r.stored.payload, used); err != nil {
		return err
	}
	r.row.Attempt = row.Attempt
	return nil
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
	return r.replace(ctx, row, &payload, parts)
}

// decide saves a decision. Everything else is as last saved. It does nothing if the decision is saved already.
func (r *run) decide(ctx context.Context, d *decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	payload := r.stored.payload
	switch {
	case payload.Iteration != d.iteration:
		return errOver // the engine has gone on without the goroutine that asks
	case payload.Next != nil:
		return nil
	}
	d.into(&payload)
	return r.replace(ctx, r.stored.row, &payload, nil)
}

// replace saves a payload and parts in place of everything that was saved before. The caller holds mu.
func (r *run) replace(
	ctx context.Context, row snapshot.Run, payload *runPayload, parts map[string]json.RawMessage,
) error {
	used := r.meter.spent()
	parts, err := withUsage(parts, used, spent{storedUsage: payload.Usage})
	if err != nil {
		return err
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
		return r.write(ctx, row, *payload, used)
	}
	err = write(inlineState)
	// A payload that is too large for one document may fit into two.
	if invalid(err) && payload.State != nil && len(payload.State) <= inlineState {
		err = write(0)
	}
	return err
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

// write saves a version of the run. The version has a number of its own, so that the write may be repeated. The caller
// holds mu.
func (r *run) write(ctx context.Context, row snapshot.Run, payload runPayload, used spent) error {
	r.row.Seq++
	row.Seq = r.row.Seq
	err := r.slot.save(ctx, row)
	switch {
	case err == nil:
		row.Payload, row.Parts = nil, nil
		r.stored = &version{row, payload, used}
		return nil
	case invalid(err):
		return err
	case errors.Is(err, lock.ErrFenced):
		r.slot.own.Lose(lock.ErrFenced)
	}
	return fmt.Errorf("%w: %w", errNotSaved, err)
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
