package ledger

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
)

// A Batch is what a Save carries of the effects of its run: see snapshot.EffectJoiner.
type Batch struct {
	// Issue are effects that are issued for the first time, by the owner of the run.
	Issue []Effect

	// Finish are outcomes of effects that this owner has issued.
	Finish []Finish
}

// A Finish is the outcome of an attempt at an effect, as the method Finish takes it.
type Finish struct {
	ID      string
	Attempt int
	Outcome Outcome
}

// Empty reports whether there is nothing to carry.
func (b Batch) Empty() bool { return len(b.Issue) == 0 && len(b.Finish) == 0 }

// Validate returns an error that matches ErrInvalid unless b may go with a Save of the run under f. No effect is named
// twice, and no outcome is the answer of a person.
func (b Batch) Validate(runID string, f lock.Fence) error {
	named := make(map[string]bool, len(b.Issue)+len(b.Finish))
	once := func(id string) error {
		if named[id] {
			return fmt.Errorf("%w: effect %q is named twice", ErrInvalid, id)
		}
		named[id] = true
		return nil
	}
	for _, e := range b.Issue {
		if err := e.ValidateIssue(); err != nil {
			return err
		}
		if e.RunID != runID || e.Fence != f {
			return fmt.Errorf("%w: effect %q is of another run or fence", ErrInvalid, e.ID)
		}
		if err := once(e.ID); err != nil {
			return err
		}
	}
	for _, o := range b.Finish {
		if err := ValidateFinish(o.ID, o.Attempt, o.Outcome); err != nil {
			return err
		}
		if o.Outcome.By != "" {
			return fmt.Errorf("%w: effect %q: an answer of a person", ErrInvalid, o.ID)
		}
		if err := once(o.ID); err != nil {
			return err
		}
	}
	return nil
}

// Carry writes b for the run under f if it is plain: see snapshot.SaveEffects. Otherwise it writes nothing. It is for
// snapshot.Memory.
func (m *Memory) Carry(ctx context.Context, runID string, f lock.Fence, b Batch) (taken bool, err error) {
	if err := checked(ctx, b.Validate(runID, f)); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range b.Issue {
		if m.effects[e.ID] != nil || m.doubts(e, true) != "" {
			return false, nil
		}
	}
	for _, o := range b.Finish {
		e := m.effects[o.ID]
		if e == nil || e.RunID != runID || e.Fence != f || e.State != Issued || e.Attempts != o.Attempt || e.Unsure {
			return false, nil
		}
	}
	if m.adopt(runID, f) != nil {
		return false, nil
	}
	for _, e := range b.Issue {
		m.add(e)
	}
	for _, o := range b.Finish {
		if err := m.effects[o.ID].finish(o.Attempt, o.Outcome); err != nil {
			return false, err
		}
	}
	return true, nil
}
