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
		"the epoch is looked at before": {"append-race-owners", looksFirst},
		"epochs are floats": {"limit-epochs", appends(func(a *appended) {
			if a.epoch >= 1<<53 {
				a.epoch = int64(float64(a.epoch) / 2)
			}
		})},
		"appends at once get one number":     {"append-race", func(m *stream.Memory) stream.Store { return &numbers{Memory: m} }},
		"a chunk is skipped":                 {"wait-race", chunks(func(_ context.Context, c *stream.Chunk) (skip, end bool) { return c.Seq == 40, false })},
		"numbers go on after Delete":         {"delete-anew", func(m *stream.Memory) stream.Store { return &goesOn{Memory: m} }},
		"the epoch stays after Delete":       {"delete-anew", remembers},
		"Delete is two steps":                {"delete-race", func(m *stream.Memory) stream.Store { return &twoSteps{goesOn{Memory: m}} }},
		"a run begins with its first chunk":  {"read-newest-begun", func(m *stream.Memory) stream.Store { return byChunk{m} }},
		"a status wakes no reader":           {"wait-status", appends(withoutData(stream.Active))},
		"an Append without data ends all":    {"wait-active", appends(withoutData(stream.Ended))},
		"readers of all sessions are one":    {"wait-apart", func(m *stream.Memory) stream.Store { return &endsOthers{Memory: m} }},
		"Read holds a lock while it yields":  {"slow", func(m *stream.Memory) stream.Store { return &locked{m, make(chan struct{}, 1)} }},
		"a reader jumps over what is gone":   {"slow-behind", func(m *stream.Memory) stream.Store { return jumps{m} }},
		"a large chunk is refused":           {"limit-chunk", refuses(1<<20, 1<<20, 600)},
		"many chunks are refused":            {"limit-chunks", refuses(1000, 1<<30, 600)},
		"many large chunks are refused":      {"limit-append", refuses(1<<20, 4<<20, 600)},
		"a long name is refused":             {"limit-names", refuses(1<<20, 1<<30, 500)},
		"names are compared without case":    {"append-sessions", folded(strings.ToLower)},
		"names are compared without blanks":  {"append-sessions", folded(strings.TrimSpace)},
		"names are joined with a slash":      {"append-sessions", byKey(slashed)},
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

// looksFirst looks at the epoch in one step, and appends in another.
func looksFirst(m *stream.Memory) stream.Store {
	var mu sync.Mutex
	var seen int64
	return appends(func(a *appended) {
		mu.Lock()
		a.skip, seen = a.epoch < seen, max(seen, a.epoch)
		mu.Unlock()
		if a.epoch = 1; !a.skip && len(a.data) > 0 {
			time.Sleep(time.Millisecond)
		}
	})(m)
}

// remembers keeps the epoch of a session for ever.
func remembers(m *stream.Memory) stream.Store {
	var mu sync.Mutex
	seen := make(map[stream.Key]int64)
	return appends(func(a *appended) {
		mu.Lock()
		defer mu.Unlock()
		a.skip, seen[a.k] = a.epoch < seen[a.k], max(a.epoch, seen[a.k])
	})(m)
}

// withoutData sets another status if there is no data. Active is set when the next chunk comes.
func withoutData(s stream.Status) func(*appended) {
	return func(a *appended) {
		if len(a.data) == 0 {
			a.status = s
		}
	}
}

// refuses has smaller limits.
func refuses(chunks, bytes, name int) func(*stream.Memory) stream.Store {
	return appends(func(a *appended) {
		size := 0
		for _, doc := range a.data {
			size += len(doc)
		}
		if len(a.data) > chunks || size >= bytes || len(a.k.Session) > name {
			a.k = stream.Key{} // which is invalid
		}
	})
}

// folded compares names in another way.
func folded(fold func(string) string) func(*stream.Memory) stream.Store {
	return byKey(func(k stream.Key) stream.Key {
		return stream.Key{Orchestrator: k.Orchestrator, Session: fold(k.Session)}
	})
}

// slashed joins both names.
func slashed(k stream.Key) stream.Key {
	session := k.Orchestrator + "/" + k.Session
	return stream.Key{Orchestrator: "all", Session: session[:min(512, len(session))]}
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
