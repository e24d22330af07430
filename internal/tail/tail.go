// Package tail lets readers of a stream wait for the chunks that other processes append. The stores that several
// processes share are built on it.
//
// A Hub has a seat for each reader that waits. While there are seats, one goroutine asks the store about all of them in
// one call, and one more may listen for what the server tells. So a thousand readers that wait cost what one costs.
package tail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/stream"
)

// A Mark says how far a reader that waits has come: it has seen chunk Seq, and the session was active.
type Mark struct {
	Key stream.Key
	Seq int64
}

// A Source is the store of a Hub.
type Source struct {
	// ID names a session in what the server tells.
	ID func(stream.Key) string

	// Ask returns the marks that are no longer right. It may return others too.
	Ask func(ctx context.Context, marks []Mark) (wrong []Mark, err error)

	// Listen passes on to the Feed what the server tells, until ctx ends. nil: the server tells nothing.
	Listen func(ctx context.Context, f *Feed)

	// Poll is how often the Hub asks about sessions that the Feed does not hear of.
	Poll time.Duration
}

// How a Hub asks.
const (
	// slow is how often a Hub asks about sessions that the Feed hears of, in case that something was not told.
	slow = 5 * time.Second

	// gather is how long marks are collected that are to be asked about at once.
	gather = 5 * time.Millisecond

	// share bounds the time that a Hub spends on asking, to a part of all time.
	share = 20

	// askPatience bounds one call of Ask. After patience without an answer the readers get the error.
	askPatience = 5 * time.Second
	patience    = 10 * time.Second
)

// A Page holds the chunks that a reader gets from a store at once.
type Page struct {
	Chunks []stream.Chunk

	// Life is a mark of the session. It differs after the session was forgotten and has begun anew.
	Life string

	// Seq is the number to read on from.
	Seq int64

	// Last says that no chunk follows, and Over that no more come.
	Last, Over bool
}

// A Hub wakes the readers of one store. Its methods may be called concurrently.
type Hub struct {
	source Source

	mu     sync.Mutex // protects following fields
	topics map[string]*topic
	feed   *Feed // nil: there is no seat
}

// A topic is a session with readers that wait.
type topic struct {
	key   stream.Key
	seats map[*seat]struct{}

	// heard says that the Feed hears of the session.
	heard bool

	// check says that the readers may have missed something.
	check bool
}

// NewHub returns a Hub for a store.
func NewHub(s Source) *Hub { return &Hub{source: s, topics: make(map[string]*topic)} }

// Read yields what next returns, and waits while nothing comes. It is stream.Store.Read for valid arguments.
func (h *Hub) Read(
	ctx context.Context, k stream.Key, seq int64, next func(ctx context.Context, seq int64) (Page, error),
) iter.Seq2[stream.Chunk, error] {
	return func(yield func(stream.Chunk, error) bool) {
		r := reader{hub: h, key: k, seq: seq, next: next, yield: yield}
		defer r.leave()
		if err := r.read(ctx); err != nil {
			yield(stream.Chunk{}, err)
		}
	}
}

type reader struct {
	hub   *Hub
	key   stream.Key
	seq   int64
	next  func(ctx context.Context, seq int64) (Page, error)
	yield func(stream.Chunk, error) bool
	seat  *seat // nil until the reader has to wait
	begun bool  // the store has answered before

	// life is the mark of the session that the reader reads.
	life string
}

func (r *reader) leave() {
	if r.seat != nil {
		r.seat.leave()
	}
}

// read returns nil at the end of the stream, and if yield wants no more.
func (r *reader) read(ctx context.Context) error {
	for {
		if r.seat != nil {
			r.seat.look()
		}
		page, err := r.page(ctx)
		if err != nil {
			return err
		}
		for _, c := range page.Chunks {
			if ctx.Err() != nil {
				return ctxcause.Of(ctx)
			}
			if !r.yield(c, nil) {
				return nil
			}
		}
		r.seq = page.Seq
		switch {
		case !page.Last:
		case page.Over:
			return nil
		case r.seat == nil: // reads once more, because the reader was not told yet
			r.seat = r.hub.join(ctx, r.key)
		default:
			if err := r.seat.wait(ctx, r.seq); err != nil {
				return err
			}
		}
	}
}

// page returns the next page. A reader that has had one outlasts a lost connection, or a server that restarts, for a
// while.
func (r *reader) page(ctx context.Context) (page Page, err error) {
	began, pause := time.Now(), keeper.Backoff{Most: time.Second}
	for {
		page, err = r.next(ctx, r.seq)
		if err == nil || !r.begun || errors.Is(err, stream.ErrGone) || time.Since(began) > patience {
			if err == nil && r.begun && page.Life != r.life {
				err = fmt.Errorf("read %q: the session was forgotten: %w", r.key.Session, stream.ErrGone)
			}
			r.begun, r.life = true, page.Life
			return page, err
		}
		if keeper.Sleep(ctx, pause.Next()) != nil {
			return page, ctxcause.Add(ctx, err)
		}
	}
}

// Tell says that a session has a chunk with the number last, or that its status is over, or that it was forgotten.
func (h *Hub) Tell(id string, last int64, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[id]; t != nil {
		for s := range t.seats {
			s.tell(last, over)
		}
	}
}

// A seat is the place of one reader. The Hub's mu protects its fields.
type seat struct {
	hub *Hub
	id  string

	// waits says that the reader waits, and has seen chunk seq.
	waits bool
	seq   int64

	// last and over are what was told since the reader has begun to look.
	last  int64
	over  bool
	err   error         // why the store could not be asked for too long
	woken chan struct{} // cap 1
}

// join gives a reader a seat. The first one starts the Hub's goroutines.
func (h *Hub) join(ctx context.Context, k stream.Key) *seat {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &seat{hub: h, id: h.source.ID(k), woken: make(chan struct{}, 1)}
	t := h.topics[s.id]
	if t == nil {
		t = &topic{key: k, seats: make(map[*seat]struct{}), heard: h.feed != nil && h.feed.all}
		h.topics[s.id] = t
	}
	t.seats[s] = struct{}{}
	if h.feed == nil {
		h.feed = newFeed(context.WithoutCancel(ctx), h)
	}
	h.feed.changed()
	return s
}

// leave gives the seat up. The last one ends the Hub's goroutines, and waits for their end.
func (s *seat) leave() {
	h := s.hub
	h.mu.Lock()
	t := h.topics[s.id]
	if delete(t.seats, s); len(t.seats) == 0 {
		delete(h.topics, s.id)
	}
	f := h.feed
	f.changed()
	if len(h.topics) > 0 {
		h.mu.Unlock()
		return
	}
	h.feed = nil
	h.mu.Unlock()
	f.end()
}

// look begins to collect what is told, before the reader looks at the store.
func (s *seat) look() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.last, s.over = 0, false
	select {
	case <-s.woken:
	default:
	}
}

// wait waits until something was told that the reader has not seen.
func (s *seat) wait(ctx context.Context, seq int64) error {
	s.hub.mu.Lock()
	s.waits, s.seq = true, seq
	s.tell(0, false)
	s.hub.mu.Unlock()
	var cut error
	select {
	case <-s.woken:
	case <-ctx.Done():
		cut = ctxcause.Of(ctx)
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.waits = false
	return cmp.Or(cut, s.err)
}

// tell wakes the reader if it has not seen what is told. mu must be held.
func (s *seat) tell(last int64, over bool) {
	s.last, s.over = max(s.last, last), s.over || over
	if s.waits && (s.over || s.last > s.seq) {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
}
