package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	// Keep is how many chunks of a session are kept at least. 0 or less means DefaultKeep.
	Keep int

	// TTL is how long the chunks of a session are kept after its last Append. 0 or less means DefaultTTL.
	TTL time.Duration

	mu       sync.Mutex // protects following fields
	sessions map[Key]*session

	// swept is when the sessions were last looked through.
	swept time.Time
}

var (
	_ Store   = (*Memory)(nil)
	_ Sweeper = (*Memory)(nil)
)

// A session is a session as a Memory keeps it.
type session struct {
	epoch  int64
	status Status
	run    string // the newest
	start  int64  // the first chunk of the newest run
	last   int64  // the last chunk
	chunks []Chunk
	at     time.Time // of the last Append

	// more is closed, and replaced, by each change.
	more chan struct{}
}

// Schema returns "": Memory has no tables.
func (m *Memory) Schema() string { return "" }

// Append implements [Store].
func (m *Memory) Append(
	ctx context.Context, k Key, run string, epoch int64, s Status, data []json.RawMessage,
) (last int64, err error) {
	if err := checked(ctx, ValidateAppend(k, run, epoch, s, data)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	at := m.find(k, now)
	if at == nil {
		at = &session{more: make(chan struct{})}
		if m.sessions == nil {
			m.sessions = make(map[Key]*session)
		}
		m.sessions[k] = at
	}
	if epoch < at.epoch {
		return at.last, nil
	}
	at.add(run, data)
	at.epoch, at.status, at.at = epoch, s, now
	if keep := KeepOf(m.Keep); len(at.chunks) >= 2*keep {
		at.chunks = slices.Clone(at.chunks[len(at.chunks)-keep:])
	}
	at.changed()
	return at.last, nil
}

func (s *session) add(run string, data []json.RawMessage) {
	if run != s.run {
		s.run, s.start = run, s.last+1
	}
	for _, doc := range data {
		s.last++
		s.chunks = append(s.chunks, Chunk{Seq: s.last, Run: run, Data: slices.Clone(doc)})
	}
}

// changed wakes the readers.
func (s *session) changed() {
	close(s.more)
	s.more = make(chan struct{})
}

// Read implements [Store].
func (m *Memory) Read(ctx context.Context, k Key, seq int64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := checked(ctx, ValidateRead(k, seq)); err != nil {
			yield(Chunk{}, err)
			return
		}
		var life *session
		for {
			chunks, more, now, err := m.after(k, seq, life)
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			life = now
			for _, c := range chunks {
				if ctx.Err() != nil {
					yield(Chunk{}, ctxcause.Of(ctx))
					return
				}
				if !yield(c, nil) {
					return
				}
				seq = c.Seq
			}
			if len(chunks) > 0 {
				continue
			}
			if more == nil {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(Chunk{}, ctxcause.Of(ctx))
				return
			}
		}
	}
}

// page is how many chunks a reader takes at a time.
const page = 256

// after returns chunks after seq, and the session that has them. If there is none, it returns a channel to wait for, or
// nil if nothing more comes. life is the session that the reader has read before; nil if it has read none.
func (m *Memory) after(
	k Key, seq int64, life *session,
) (chunks []Chunk, more <-chan struct{}, now *session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(k, time.Now())
	if life != nil && s != life {
		return nil, nil, nil, ErrGone
	}
	if s == nil {
		if seq > 0 {
			return nil, nil, nil, ErrGone
		}
		return nil, nil, nil, nil
	}
	first := s.last - int64(len(s.chunks)) + 1
	if seq == Newest {
		seq = max(s.start, first) - 1
	}
	if seq > s.last || seq < first-1 {
		return nil, nil, nil, ErrGone
	}
	for _, c := range s.chunks[seq-first+1:] {
		c.Data = slices.Clone(c.Data)
		chunks = append(chunks, c)
		if len(chunks) == page {
			break
		}
	}
	if len(chunks) == 0 && !s.status.Over() {
		more = s.more
	}
	return chunks, more, s, nil
}

// Last implements [Store].
func (m *Memory) Last(ctx context.Context, k Key) (seq int64, run string, status Status, err error) {
	if err := checked(ctx, k.Validate()); err != nil {
		return 0, "", "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.find(k, time.Now()); s != nil {
		return s.last, s.run, s.status, nil
	}
	return 0, "", Ended, nil
}

// Starts implements [Store].
func (m *Memory) Starts(ctx context.Context, k Key) (map[string]int64, error) {
	if err := checked(ctx, k.Validate()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	starts := make(map[string]int64)
	if s := m.find(k, time.Now()); s != nil {
		for _, c := range slices.Backward(s.chunks) {
			starts[c.Run] = c.Seq
		}
	}
	return starts, nil
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, k Key) error {
	if err := checked(ctx, k.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(k)
	return nil
}

func (m *Memory) forget(k Key) {
	if s := m.sessions[k]; s != nil {
		delete(m.sessions, k)
		s.changed()
	}
}

// Sweep implements [Sweeper].
func (m *Memory) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	if err := checked(ctx, nil); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sweep(time.Now(), limit), nil
}

func (m *Memory) ttl() time.Duration { return cmp.Or(max(m.TTL, 0), DefaultTTL) }

// find returns the session; nil if it is not known, or its TTL has passed.
func (m *Memory) find(k Key, now time.Time) *session {
	m.sweepNow(now)
	if s := m.sessions[k]; s != nil && now.Sub(s.at) > m.ttl() {
		m.forget(k)
	}
	return m.sessions[k]
}

// sweepNow sweeps a few times in each TTL, so that programs need not call Sweep.
func (m *Memory) sweepNow(now time.Time) {
	if now.Sub(m.swept) > m.ttl()/8 {
		m.swept = now
		m.sweep(now, 0)
	}
}

func (m *Memory) sweep(now time.Time, limit int) (forgotten int) {
	for k, s := range m.sessions {
		if limit > 0 && forgotten == limit {
			break
		}
		if now.Sub(s.at) > m.ttl() {
			m.forget(k)
			forgotten++
		}
	}
	return forgotten
}

// checked returns err, or why ctx has ended.
func checked(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctxcause.Of(ctx)
}
