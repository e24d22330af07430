package streamtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// Each broken store must be caught by the clause that it breaks.
func TestSuiteConvicts(t *testing.T) {
	trial := suite.Trial[stream.Store]{Violations: streamtest.Violations, Tries: 20}
	for name, c := range map[string]struct {
		clause string
		broken func(*stream.Memory) stream.Store
	}{
		"a former owner is taken":      {"append-superseded", appends(func(a *appended) { a.epoch = min(a.epoch, 1) })},
		"only one epoch is ever taken": {"append-new-owner", onlyFirstEpoch},
		"the status is never over":     {"append-statuses", func(m *stream.Memory) stream.Store { return active{m} }},
		"nothing is no status either":  {"append-nothing", appends(func(a *appended) { a.skip = len(a.data) == 0 })},
		"sessions of a bot are one": {"append-sessions", byKey(func(k stream.Key) stream.Key {
			k.Session = "all"
			return k
		})},
		"a run without data is none": {"last-run", func(m *stream.Memory) stream.Store { return shownRun{m} }},
		"all runs are one": {"append-runs", appends(func(a *appended) {
			if a.run != "" {
				a.run = "r-1"
			}
		})},
		"what is above waits":     {"read-above", func(m *stream.Memory) stream.Store { return lenient{m} }},
		"Newest is the beginning": {"read-newest", from(func(seq int64) int64 { return max(seq, 0) })},
		"Read yields seq again": {"read-after", from(func(seq int64) int64 {
			if seq > 0 {
				seq--
			}
			return seq
		})},
		"what was read is yielded":      {"read-cut", func(m *stream.Memory) stream.Store { return collects{m} }},
		"Read does not wait":            {"wait", func(m *stream.Memory) stream.Store { return hasty{m} }},
		"a ctx that ends is not named":  {"wait-cut", chunks(func(ctx context.Context, _ *stream.Chunk) (skip, end bool) { return false, ctx.Err() != nil })},
		"Delete does nothing":           {"delete", func(m *stream.Memory) stream.Store { return kept{m} }},
		"a reader outlives its session": {"delete-next", func(m *stream.Memory) stream.Store { return anew{m} }},
		"a ctx is not looked at":        {"append-cancelled", appends(func(a *appended) { a.ctx = context.WithoutCancel(a.ctx) })},
		"chunks are kept without check": {"append-refused", appends(func(a *appended) {
			a.data = slices.DeleteFunc(slices.Clone(a.data), func(doc json.RawMessage) bool { return !json.Valid(doc) })
		})},
		"a run without chunks starts": {"starts", func(m *stream.Memory) stream.Store { return startsEmpty{m} }},
		"runs start again":            {"starts", func(m *stream.Memory) stream.Store { return startsAgain{m} }},
		"few runs are listed":         {"starts-many", func(m *stream.Memory) stream.Store { return startsFew{m} }},
		"too few chunks are kept":     {"keep", func(*stream.Memory) stream.Store { return &stream.Memory{Keep: 1000} }},
		"all chunks are kept":         {"keep", func(*stream.Memory) stream.Store { return &stream.Memory{Keep: 1 << 20} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() stream.Store { return c.broken(new(stream.Memory)) })
		})
	}
}

// The broken stores convict only because the store that they change is right.
func TestSuiteAccepts(t *testing.T) {
	right := func() stream.Store { return unchanged(new(stream.Memory)) }
	for name, err := range streamtest.Violations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

// An appended is the arguments of an Append. If skip is set, the store takes nothing.
type appended struct {
	ctx    context.Context
	k      stream.Key
	run    string
	epoch  int64
	status stream.Status
	data   []json.RawMessage
	skip   bool
}

// A changed store changes the arguments of an Append. A Read begins at what from makes of seq, of each session by the
// name that key makes, and chunk may change what it yields, skip it, or end there.
type changed struct {
	*stream.Memory
	append func(*appended)
	key    func(stream.Key) stream.Key
	from   func(int64) int64
	chunk  func(context.Context, *stream.Chunk) (skip, end bool)
}

func unchanged(m *stream.Memory) changed {
	return changed{
		m, func(*appended) {}, func(k stream.Key) stream.Key { return k }, func(seq int64) int64 { return seq },
		func(context.Context, *stream.Chunk) (skip, end bool) { return false, false },
	}
}

func appends(change func(*appended)) func(*stream.Memory) stream.Store {
	return func(m *stream.Memory) stream.Store {
		c := unchanged(m)
		c.append = change
		return c
	}
}

// byKey has one epoch, because it takes several sessions for one.
func byKey(key func(stream.Key) stream.Key) func(*stream.Memory) stream.Store {
	return func(m *stream.Memory) stream.Store {
		c := unchanged(m)
		c.key = func(k stream.Key) stream.Key {
			if k.Validate() != nil {
				return k
			}
			return key(k)
		}
		c.append = func(a *appended) { a.epoch = 1 }
		return c
	}
}

func from(from func(seq int64) int64) func(*stream.Memory) stream.Store {
	return func(m *stream.Memory) stream.Store {
		c := unchanged(m)
		c.from = from
		return c
	}
}

func chunks(chunk func(context.Context, *stream.Chunk) (skip, end bool)) func(*stream.Memory) stream.Store {
	return func(m *stream.Memory) stream.Store {
		c := unchanged(m)
		c.chunk = chunk
		return c
	}
}

func (b changed) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	a := appended{ctx, b.key(k), run, epoch, s, data, false}
	if b.append(&a); a.skip {
		last, _, _, err := b.Last(ctx, k)
		return last, err
	}
	return b.Memory.Append(a.ctx, a.k, a.run, a.epoch, a.status, a.data)
}

func (b changed) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, b.key(k), b.from(seq)) {
			skip, end := b.chunk(ctx, &c)
			if end || !skip && !yield(c, err) {
				return
			}
		}
	}
}

func onlyFirstEpoch(m *stream.Memory) stream.Store {
	var first int64
	return appends(func(a *appended) {
		first = cmp.Or(first, a.epoch)
		a.skip = a.epoch != first
	})(m)
}

// shownRun returns the run of the newest chunk.
type shownRun struct{ *stream.Memory }

func (b shownRun) Last(ctx context.Context, k stream.Key) (int64, string, stream.Status, error) {
	last, run, status, err := b.Memory.Last(ctx, k)
	for chunk, failed := range b.Read(ctx, k, last-1) {
		run, err = chunk.Run, failed
		break
	}
	return last, run, status, err
}

// startsEmpty has the newest run, with chunks or without.
type startsEmpty struct{ *stream.Memory }

func (b startsEmpty) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	starts, err := b.Memory.Starts(ctx, k)
	last, run, _, _ := b.Last(ctx, k)
	if _, ok := starts[run]; !ok && run != "" {
		starts[run] = last + 1
	}
	return starts, err
}

// startsAgain has the last start of a run that has gone on.
type startsAgain struct{ *stream.Memory }

func (b startsAgain) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	starts, err := b.Memory.Starts(ctx, k)
	last, _, _, _ := b.Last(ctx, k)
	run := ""
	for c, err := range b.Read(ctx, k, 0) {
		if err != nil {
			return starts, err
		}
		if c.Run != run && last > 0 {
			run, starts[c.Run] = c.Run, c.Seq
		}
		if c.Seq == last {
			break
		}
	}
	return starts, err
}

// startsFew stops after some runs.
type startsFew struct{ *stream.Memory }

func (b startsFew) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	starts, err := b.Memory.Starts(ctx, k)
	maps.DeleteFunc(starts, func(_ string, seq int64) bool { return seq > 64 })
	return starts, err
}

type active struct{ *stream.Memory }

func (b active) Last(ctx context.Context, k stream.Key) (int64, string, stream.Status, error) {
	last, run, _, err := b.Memory.Last(ctx, k)
	return last, run, stream.Active, err
}

type lenient struct{ *stream.Memory }

func (b lenient) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if last, _, _, err := b.Last(ctx, k); err == nil && seq > last {
		return func(func(stream.Chunk, error) bool) {}
	}
	return b.Memory.Read(ctx, k, seq)
}

type collects struct{ *stream.Memory }

func (b collects) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if _, _, s, err := b.Last(ctx, k); err != nil || s == stream.Active {
		return b.Memory.Read(ctx, k, seq)
	}
	return func(yield func(stream.Chunk, error) bool) {
		var chunks []stream.Chunk
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if err != nil {
				yield(c, err)
				return
			}
			chunks = append(chunks, c)
		}
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

type hasty struct{ *stream.Memory }

func (b hasty) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		last, _, _, err := b.Last(ctx, k)
		if err != nil || seq >= last {
			return
		}
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if !yield(c, err) || c.Seq == last {
				return
			}
		}
	}
}

type kept struct{ *stream.Memory }

func (kept) Delete(context.Context, stream.Key) error { return nil }

// anew asks again, with a number alone, when the chunks are gone.
type anew struct{ *stream.Memory }

func (b anew) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for again := true; again; {
			again = false
			for c, err := range b.Memory.Read(ctx, k, seq) {
				if errors.Is(err, stream.ErrGone) {
					last, _, _, _ := b.Last(ctx, k)
					again = last >= seq && last < stream.DefaultKeep
				}
				if again {
					break
				}
				if !yield(c, err) {
					return
				}
				seq = c.Seq
			}
		}
	}
}
