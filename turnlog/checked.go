package turnlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Checked is a Log that checks phases and states before its adapter sees them, and what the adapter gives back. New
// returns one. It is a [Lister]: if its adapter is none, Turns and Prune return [errors.ErrUnsupported].
type Checked struct {
	adapter  Log
	registry *Registry
}

var _ Lister = (*Checked)(nil)

// New returns a Log over an adapter that takes the phases of r only. If r is nil, it takes the canonical phases.
func New(adapter Log, r *Registry) *Checked {
	if r == nil {
		r = NewRegistry()
	}
	return &Checked{adapter, r}
}

// Over returns a Log over another adapter that takes the phases of c. A test puts faults before a log with it.
func (c *Checked) Over(adapter Log) *Checked { return &Checked{adapter, c.registry} }

// Adapter returns what c checks.
func (c *Checked) Adapter() Log { return c.adapter }

// Record implements [Log]. It returns ErrPhase for a phase that is not registered.
func (c *Checked) Record(ctx context.Context, e Entry) error {
	if err := c.Validate(e); err != nil {
		return err
	}
	e.At, e.State = e.At.UTC(), e.state()
	return c.adapter.Record(ctx, e)
}

// Validate returns the error with which Record refuses e, before its adapter sees it.
func (c *Checked) Validate(e Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if !c.registry.knows(e.Phase) {
		return fmt.Errorf("%w: %q", ErrPhase, e.Phase)
	}
	return nil
}

// Restore implements [Log]. If the adapter does not keep the order, the entries are sorted. If it gives back an entry
// twice, there is one. Entries of other runs are dropped: then the error is ErrAdapter, and names the adapter. Such an
// error comes with the entries of the run.
func (c *Checked) Restore(ctx context.Context, run string) ([]Entry, error) {
	if err := ValidateRun(run); err != nil {
		return nil, err
	}
	restored, err := c.adapter.Restore(ctx, run)
	entries := slices.Clone(restored) // the slice may be the adapter's own
	all := len(entries)
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Run != run })
	if foreign := all - len(entries); foreign > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %T has given back %d entries of other runs",
			ErrAdapter, c.adapter, foreign))
	}
	slices.SortStableFunc(entries, Entry.compare)
	kept := entries[:0]
	for _, e := range entries {
		e.At = e.At.UTC()
		if len(kept) == 0 || kept[len(kept)-1].compare(e) != 0 {
			kept = append(kept, e)
			continue
		}
		if !Same(kept[len(kept)-1].State, e.State) {
			err = errors.Join(err, fmt.Errorf("%w: %T has two states of phase %q at %s",
				ErrAdapter, c.adapter, e.Phase, e.At.UTC().Format(TimeFormat)))
		}
	}
	return kept, err
}

// compare orders the entries of a run. Entries of one time, which the engine does not record, are ordered by phase.
func (e Entry) compare(f Entry) int {
	return cmp.Or(e.At.Compare(f.At), strings.Compare(e.Phase, f.Phase))
}

// Turns implements [Lister].
func (c *Checked) Turns(ctx context.Context, q Query) iter.Seq2[Summary, error] {
	if l, ok := c.adapter.(Lister); ok {
		return l.Turns(ctx, q)
	}
	return func(yield func(Summary, error) bool) { yield(Summary{}, c.noLister()) }
}

// Prune implements [Lister].
func (c *Checked) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	if l, ok := c.adapter.(Lister); ok {
		return l.Prune(ctx, before)
	}
	return 0, c.noLister()
}

// Sweep implements store.Sweeper. If its adapter is none, it does nothing.
func (c *Checked) Sweep(ctx context.Context, limit int) (retired int, err error) {
	if s, ok := c.adapter.(store.Sweeper); ok {
		return s.Sweep(ctx, limit)
	}
	return 0, nil
}

func (c *Checked) noLister() error {
	return fmt.Errorf("turnlog: %T does not list turns: %w", c.adapter, errors.ErrUnsupported)
}
