package streamtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// These stores look right to one caller, or with small numbers.
func TestSuiteConvictsRaces(t *testing.T) {
	trial := suite.Trial[stream.Store]{
		Violations: streamtest.Violations, Tries: 20, Blocking: []string{"slow", "wait-status", "wait-active"},
	}
	for name, c := range map[string]struct {
		clause string
		broken func(*stream.Memory) stream.Store
	}{
		"the epoch is looked at before":      {"append-race-owners", func(m *stream.Memory) stream.Store { return &looksFirst{Memory: m} }},
		"epochs are floats":                  {"limit-epochs", func(m *stream.Memory) stream.Store { return floats{m} }},
		"appends at once get one number":     {"append-race", func(m *stream.Memory) stream.Store { return &numbers{Memory: m} }},
		"a chunk is skipped":                 {"wait-race", func(m *stream.Memory) stream.Store { return skips{m} }},
		"numbers go on after Delete":         {"delete-anew", func(m *stream.Memory) stream.Store { return &goesOn{Memory: m} }},
		"the epoch stays after Delete":       {"delete-anew", func(m *stream.Memory) stream.Store { return &remembers{Memory: m} }},
		"Delete is two steps":                {"delete-race", func(m *stream.Memory) stream.Store { return &twoSteps{goesOn{Memory: m}} }},
		"a run begins with its first chunk":  {"read-newest-begun", func(m *stream.Memory) stream.Store { return byChunk{m} }},
		"a status wakes no reader":           {"wait-status", func(m *stream.Memory) stream.Store { return &late{Memory: m} }},
		"an Append without data ends all":    {"wait-active", func(m *stream.Memory) stream.Store { return endsAll{m} }},
		"readers of all sessions are one":    {"wait-apart", func(m *stream.Memory) stream.Store { return &endsOthers{Memory: m} }},
		"Read holds a lock while it yields":  {"slow", func(m *stream.Memory) stream.Store { return &locked{m, make(chan struct{}, 1)} }},
		"a reader jumps over what is gone":   {"slow-behind", func(m *stream.Memory) stream.Store { return jumps{m} }},
		"a large chunk is refused":           {"limit-chunk", func(m *stream.Memory) stream.Store { return refuses{m, 1 << 20, 1 << 20, 600} }},
		"many chunks are refused":            {"limit-chunks", func(m *stream.Memory) stream.Store { return refuses{m, 1000, 1 << 30, 600} }},
		"many large chunks are refused":      {"limit-append", func(m *stream.Memory) stream.Store { return refuses{m, 1 << 20, 4 << 20, 600} }},
		"a long name is refused":             {"limit-names", func(m *stream.Memory) stream.Store { return refuses{m, 1 << 20, 1 << 30, 500} }},
		"names are compared without case":    {"append-sessions", func(m *stream.Memory) stream.Store { return folded{m, strings.ToLower} }},
		"names are compared without blanks":  {"append-sessions", func(m *stream.Memory) stream.Store { return folded{m, strings.TrimSpace} }},
		"names are joined with a slash":      {"append-sessions", func(m *stream.Memory) stream.Store { return slashed{m} }},
		"what was appended is not copied":    {"read-owned", func(m *stream.Memory) stream.Store { return &aliases{Memory: m} }},
		"a reader that has left goes on":     {"read-calls", func(m *stream.Memory) stream.Store { return deafToBreak{m} }},
		"a reader that waits ignores Delete": {"wait-delete", func(m *stream.Memory) stream.Store { return &kept{Memory: m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := trial
			if c.clause == "wait-delete" {
				trial.Blocking = []string{"wait-delete"}
			}
			trial.Convict(t, c.clause, func() stream.Store { return c.broken(new(stream.Memory)) })
		})
	}
}

type looksFirst struct {
	*stream.Memory
	mu   sync.Mutex
	seen int64
}

func (b *looksFirst) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	b.mu.Lock()
	former := epoch < b.seen
	b.seen = max(b.seen, epoch)
	b.mu.Unlock()
	if former {
		last, _, _, err := b.Last(ctx, k)
		return last, err
	}
	if len(data) > 0 {
		time.Sleep(time.Millisecond)
	}
	return b.Memory.Append(ctx, k, run, 1, s, data)
}

type floats struct{ *stream.Memory }

func (b floats) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if epoch < 1<<53 {
		return b.Memory.Append(ctx, k, run, epoch, s, data)
	}
	return b.Memory.Append(ctx, k, run, int64(float64(epoch)/2), s, data)
}

// numbers loses what is appended while another Append looks for the last number.
type numbers struct {
	*stream.Memory
	mu   sync.Mutex
	busy bool
}

func (b *numbers) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	b.mu.Lock()
	busy := b.busy
	b.busy = true
	b.mu.Unlock()
	if busy && len(data) > 0 {
		last, _, _, err := b.Last(ctx, k)
		return last + int64(len(data)), err
	}
	if len(data) > 0 {
		time.Sleep(time.Millisecond)
	}
	b.mu.Lock()
	b.busy = false
	b.mu.Unlock()
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

type skips struct{ *stream.Memory }

func (b skips) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if c.Seq == 40 {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// goesOn counts on after a Delete.
type goesOn struct {
	*stream.Memory
	mu    sync.Mutex
	count map[stream.Key]int64
}

func (b *goesOn) before(k stream.Key) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[k]
}

func (b *goesOn) Delete(ctx context.Context, k stream.Key) error {
	last, _, _, err := b.Last(ctx, k)
	if err == nil {
		err = b.Memory.Delete(ctx, k)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == nil {
		b.count = make(map[stream.Key]int64)
	}
	b.count[k] += last
	return err
}

func (b *goesOn) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	last, err := b.Memory.Append(ctx, k, run, epoch, s, data)
	return last + b.before(k), err
}

// twoSteps is goesOn, whose reader sees the numbers of the last Append.
type twoSteps struct{ goesOn }

func (b *twoSteps) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if c.Seq > 1 {
				c.Seq += b.before(k)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// remembers keeps the epoch of a session for ever.
type remembers struct {
	*stream.Memory
	mu   sync.Mutex
	seen map[stream.Key]int64
}

func (b *remembers) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	b.mu.Lock()
	if b.seen == nil {
		b.seen = make(map[stream.Key]int64)
	}
	former := epoch < b.seen[k]
	b.seen[k] = max(epoch, b.seen[k])
	b.mu.Unlock()
	if former {
		last, _, _, err := b.Last(ctx, k)
		return last, err
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

// byChunk looks for the newest run among the chunks.
type byChunk struct{ *stream.Memory }

func (b byChunk) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	last, _, _, err := b.Last(ctx, k)
	if seq != stream.Newest || err != nil || last == 0 {
		return b.Memory.Read(ctx, k, seq)
	}
	seq = 0
	run := ""
	for c, err := range b.Memory.Read(ctx, k, 0) {
		if err == nil && c.Run != run {
			seq, run = c.Seq-1, c.Run
		}
		if c.Seq == last {
			break
		}
	}
	return b.Memory.Read(ctx, k, seq)
}

// late sets a status without data when the next chunk comes.
type late struct{ *stream.Memory }

func (b *late) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if len(data) == 0 {
		s = stream.Active
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

type endsAll struct{ *stream.Memory }

func (b endsAll) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if len(data) == 0 {
		s = stream.Ended
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

// endsOthers ends all readers when any session is deleted.
type endsOthers struct {
	*stream.Memory
	mu  sync.Mutex
	end context.CancelFunc
}

func (b *endsOthers) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	b.mu.Lock()
	ctx, b.end = context.WithCancel(ctx)
	b.mu.Unlock()
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if err != nil || !yield(c, err) {
				return
			}
		}
	}
}

func (b *endsOthers) Delete(ctx context.Context, k stream.Key) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		b.end()
	}
	return b.Memory.Delete(ctx, k)
}

// locked lets one caller in at a time, and a reader as long as it yields.
type locked struct {
	*stream.Memory
	lock chan struct{}
}

func (b *locked) enter(ctx context.Context) error {
	select {
	case b.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *locked) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if err := b.enter(ctx); err != nil {
		return 0, err
	}
	defer func() { <-b.lock }()
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

func (b *locked) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if err := b.enter(ctx); err != nil {
				yield(stream.Chunk{}, err)
				return
			}
			goOn := yield(c, err)
			<-b.lock
			if !goOn {
				return
			}
		}
	}
}

// jumps goes on with what is kept.
type jumps struct{ *stream.Memory }

func (b jumps) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for {
			again := false
			for c, err := range b.Memory.Read(ctx, k, seq) {
				if again = errors.Is(err, stream.ErrGone) && seq >= 0; again {
					break
				}
				if !yield(c, err) {
					return
				}
				seq = c.Seq
			}
			if !again {
				return
			}
			seq = stream.Newest
		}
	}
}

// refuses has smaller limits.
type refuses struct {
	*stream.Memory
	chunks, bytes, name int
}

func (b refuses) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	size := 0
	for _, doc := range data {
		size += len(doc)
	}
	if len(data) > b.chunks || size >= b.bytes || len(k.Session) > b.name {
		return 0, stream.ErrInvalid
	}
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

// folded compares names in another way.
type folded struct {
	*stream.Memory
	fold func(string) string
}

func (b folded) key(k stream.Key) stream.Key {
	return stream.Key{Orchestrator: k.Orchestrator, Session: b.fold(k.Session)}
}

func (b folded) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(ctx, b.key(k), run, 1, s, data)
}

func (b folded) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return b.Memory.Read(ctx, b.key(k), seq)
}

// slashed joins both names.
type slashed struct{ *stream.Memory }

func (slashed) key(k stream.Key) stream.Key {
	if k.Validate() != nil {
		return k
	}
	session := k.Orchestrator + "/" + k.Session
	return stream.Key{Orchestrator: "all", Session: session[:min(512, len(session))]}
}

func (b slashed) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(ctx, b.key(k), run, 1, s, data)
}

func (b slashed) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return b.Memory.Read(ctx, b.key(k), seq)
}

// aliases gives the first reader what was appended, and not a copy.
type aliases struct {
	*stream.Memory
	data []json.RawMessage
}

func (b *aliases) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	b.data = append(b.data, data...)
	return b.Memory.Append(ctx, k, run, epoch, s, data)
}

func (b *aliases) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if err == nil {
				c.Data = b.data[c.Seq-1]
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// deafToBreak forgets what its loop did not want.
type deafToBreak struct{ *stream.Memory }

func (b deafToBreak) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		for c, err := range b.Memory.Read(ctx, k, seq) {
			if !yield(c, err) {
				_ = b.Memory.Delete(ctx, k)
				return
			}
		}
	}
}
