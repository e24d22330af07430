package streamtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
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
		"a former owner is taken":       {"append-superseded", func(m *stream.Memory) stream.Store { return anyEpoch{m} }},
		"only one epoch is ever taken":  {"append-new-owner", func(m *stream.Memory) stream.Store { return &firstEpoch{Memory: m} }},
		"the status is never over":      {"append-statuses", func(m *stream.Memory) stream.Store { return active{m} }},
		"nothing is no status either":   {"append-nothing", func(m *stream.Memory) stream.Store { return needsData{m} }},
		"sessions of a bot are one":     {"append-sessions", func(m *stream.Memory) stream.Store { return joined{m} }},
		"a run without data is none":    {"last-run", func(m *stream.Memory) stream.Store { return shownRun{m} }},
		"all runs are one":              {"append-runs", func(m *stream.Memory) stream.Store { return oneRun{m} }},
		"what is above waits":           {"read-above", func(m *stream.Memory) stream.Store { return lenient{m} }},
		"Newest is the beginning":       {"read-newest", func(m *stream.Memory) stream.Store { return fromStart{m} }},
		"Read yields seq again":         {"read-after", func(m *stream.Memory) stream.Store { return inclusive{m} }},
		"what was read is yielded":      {"read-cut", func(m *stream.Memory) stream.Store { return collects{m} }},
		"Read does not wait":            {"wait", func(m *stream.Memory) stream.Store { return hasty{m} }},
		"a ctx that ends is not named":  {"wait-cut", func(m *stream.Memory) stream.Store { return silent{m} }},
		"Delete does nothing":           {"delete", func(m *stream.Memory) stream.Store { return kept{m} }},
		"a reader outlives its session": {"delete-next", func(m *stream.Memory) stream.Store { return anew{m} }},
		"a ctx is not looked at":        {"append-cancelled", func(m *stream.Memory) stream.Store { return deaf{m} }},
		"chunks are kept without check": {"append-refused", func(m *stream.Memory) stream.Store { return cleaning{m} }},
		"too few chunks are kept":       {"keep", func(*stream.Memory) stream.Store { return &stream.Memory{Keep: 1000} }},
		"all chunks are kept":           {"keep", func(*stream.Memory) stream.Store { return &stream.Memory{Keep: 1 << 20} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() stream.Store { return c.broken(new(stream.Memory)) })
		})
	}
}

// shownRun returns the run of the newest chunk.
type shownRun struct{ *stream.Memory }

func (b shownRun) Last(ctx context.Context, k stream.Key) (int64, string, stream.Status, error) {
	last, run, status, err := b.Memory.Last(ctx, k)
	for chunk := range b.Read(ctx, k, last-1) {
		run = chunk.Run
		break
	}
	return last, run, status, err
}

type anyEpoch struct{ *stream.Memory }

func (b anyEpoch) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(ctx, k, run, min(epoch, 1), s, data)
}

type firstEpoch struct {
	*stream.Memory
	first int64
}

func (b *firstEpoch) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if b.first == 0 {
		b.first = epoch
	}
	if epoch != b.first {
		last, _, _, err := b.Last(ctx, k)
		return last, err
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

type active struct{ *stream.Memory }

func (b active) Last(ctx context.Context, k stream.Key) (int64, string, stream.Status, error) {
	last, run, _, err := b.Memory.Last(ctx, k)
	return last, run, stream.Active, err
}

type needsData struct{ *stream.Memory }

func (b needsData) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if len(data) == 0 {
		last, _, _, err := b.Last(ctx, k)
		return last, err
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

type joined struct{ *stream.Memory }

func (b joined) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(ctx, b.key(k), run, 1, s, data)
}

func (b joined) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return b.Memory.Read(ctx, b.key(k), seq)
}

func (joined) key(k stream.Key) stream.Key {
	if k.Validate() == nil {
		k.Session = "all"
	}
	return k
}

type oneRun struct{ *stream.Memory }

func (b oneRun) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if run != "" {
		run = "r-1"
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

type lenient struct{ *stream.Memory }

func (b lenient) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if last, _, _, err := b.Last(ctx, k); err == nil && seq > last {
		return func(func(stream.Chunk, error) bool) {}
	}
	return b.Memory.Read(ctx, k, seq)
}

type fromStart struct{ *stream.Memory }

func (b fromStart) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if seq == stream.Newest {
		seq = 0
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

type inclusive struct{ *stream.Memory }

func (b inclusive) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if seq > 0 {
		seq--
	}
	return b.Memory.Read(ctx, k, seq)
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

type silent struct{ *stream.Memory }

func (b silent) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if ctx.Err() != nil || !yield(c, err) {
				return
			}
		}
	}
}

type kept struct{ *stream.Memory }

func (kept) Delete(context.Context, stream.Key) error { return nil }

type deaf struct{ *stream.Memory }

func (b deaf) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(context.WithoutCancel(ctx), k, run, epoch, s, data)
}

type cleaning struct{ *stream.Memory }

func (b cleaning) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	good := make([]json.RawMessage, 0, len(data))
	for _, doc := range data {
		if json.Valid(doc) {
			good = append(good, doc)
		}
	}
	return b.Memory.Append(ctx, k, run, epoch, s, good)
}

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
