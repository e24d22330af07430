package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/stream"
)

// How events come to the stream store.
const (
	// showEvery is how long events are collected, and showTokens how many of them are enough. After a pause it is
	// showFirst: readers have the first event soon, and a turn that takes no longer is one Append.
	showEvery  = 50 * time.Millisecond
	showFirst  = 10 * time.Millisecond
	showTokens = 20

	// mostShown is how many events are appended together, mostDelta how many bytes of text one chunk has, and
	// mostAppended how many bytes one Append.
	mostShown    = 128
	mostDelta    = 16 << 10
	mostAppended = 1 << 20

	// showPatience bounds one call of the store. Events that the store has not taken for showLimit are dropped. Then
	// the events that follow get one call each, of lastPatience, until the store takes some.
	showPatience = 5 * time.Second
	showLimit    = 30 * time.Second
	lastPatience = time.Second
)

// shows append the events of the turns of this process to Options.Stream. No turn waits for them.
type shows struct {
	store  stream.Store
	name   string // of the orchestrator
	report *reporter

	// ctx ends when the process has shut down.
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // protects following fields
	open map[string]*show
}

func newShows(store stream.Store, name string, r *reporter) *shows {
	s := &shows{store: store, name: name, report: r, open: make(map[string]*show)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// A show appends the events of one session. Its goroutine lives while there are events.
type show struct {
	of   *shows
	key  stream.Key
	done chan struct{} // closed when the goroutine has ended

	// full has an element if the events need not be collected any longer.
	full chan struct{}

	// calls has an element while the store is called.
	calls chan struct{}

	// events, lost and forgotten are protected by shows.mu. Events up to the epoch forgotten are of a session that was
	// deleted.
	events    backlog
	lost      int
	forgotten int64

	// last is the number of the last chunk; 0 if it is not known.
	last int64

	// since is when the store was called first of the calls that it has not answered; zero if it has.
	since time.Time
}

// shown reports whether readers of a session see ev. What is about an earlier turn would look like the newest turn.
func shown(ev Event) bool {
	return ev.epoch > 0 && ev.RunID != "" && ev.Kind != Delivered && ev.Kind != Compacted && ev.Kind != TurnRefused
}

// add hands over an event. It never blocks.
func (s *shows) add(session string, ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.open[session]
	if w == nil {
		w = &show{
			of: s, key: stream.Key{Orchestrator: s.name, Session: session},
			done: make(chan struct{}), full: make(chan struct{}, 1), calls: make(chan struct{}, 1),
			events: backlog{ends: true},
		}
		s.open[session] = w
		defer func() { go w.run() }()
	}
	if !w.events.push(ev) {
		s.report.dropped("the stream store", session, w.lost)
		w.lost++
		return
	}
	if len(w.events.waiting) >= showTokens || ev.Kind.outcome() != "" {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
}

// finish waits until all events are appended, until ctx ends. Then it gives up the others.
func (s *shows) finish(ctx context.Context) {
	defer s.stop()
	for {
		w := s.any()
		if w == nil {
			return
		}
		select {
		case <-w.done:
		case <-ctx.Done():
			return
		}
	}
}

func (s *shows) any() *show {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.open {
		return w
	}
	return nil
}

func (w *show) run() {
	defer close(w.done)
	w.collect(showFirst)
	for {
		batch := w.take()
		if len(batch) == 0 {
			return
		}
		w.append(batch)
		w.collect(showEvery)
	}
}

// take returns events of one run and one owner. If there is none, the show is over.
func (w *show) take() (batch []Event) {
	s := w.of
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(batch) < mostShown && len(w.events.waiting) > 0 {
		next := w.events.waiting[0].event
		if len(batch) > 0 && (next.RunID != batch[0].RunID || next.epoch != batch[0].epoch) {
			break
		}
		ev, _ := w.events.pop()
		batch = append(batch, ev)
		if ev.Kind.outcome() != "" {
			break
		}
	}
	if len(batch) == 0 {
		delete(s.open, w.key.Session)
	}
	w.calm()
	return batch
}

// calm takes back the word that there are enough events, unless there still are. Otherwise a pause would count as the
// end of the show, and the next show would not know the number of the last chunk. The caller holds shows.mu.
func (w *show) calm() {
	if len(w.events.waiting) > 0 {
		return
	}
	select {
	case <-w.full:
	default:
	}
}

// collect waits while events come in.
func (w *show) collect(d time.Duration) {
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-w.full:
	case <-enough.C:
	case <-w.of.ctx.Done():
	}
}

// append appends a batch, in as many calls as its size needs.
func (w *show) append(batch []Event) {
	data, over := chunksOf(batch), statusOf(batch)
	for {
		n := fitting(data)
		status := stream.Active
		if n == len(data) {
			status = over
		}
		w.appendAtOnce(batch[0], status, data[:n])
		if data = data[n:]; len(data) == 0 {
			return
		}
	}
}

// fitting returns how many chunks one Append takes.
func fitting(data []json.RawMessage) int {
	size := 0
	for i, doc := range data {
		if size += len(doc); i > 0 && (size > mostAppended || i == stream.MaxChunks) {
			return i
		}
	}
	return len(data)
}

// appendAtOnce makes one call of the store, and tries again while the store does not answer.
func (w *show) appendAtOnce(first Event, status stream.Status, data []json.RawMessage) {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		err := w.try(first, status, data)
		if err == nil || errors.Is(err, stream.ErrInvalid) {
			w.since = time.Time{}
		}
		if err == nil {
			return
		}
		if w.of.ctx.Err() != nil || w.since.IsZero() || w.late() {
			w.of.report.unshown(w.key.Session, len(data), err)
			return
		}
		w.wait(pause)
		if landed, err := w.landed(len(data)); err == nil && landed {
			w.since = time.Time{}
			return
		}
	}
}

// late reports whether the store has taken nothing for showLimit.
func (w *show) late() bool { return time.Since(w.since) > showLimit }

func (w *show) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.of.ctx.Done():
	}
}

// try makes one attempt. The end of a turn that had settled before is shown only if the stream lacks it, and shows no
// later run.
func (w *show) try(first Event, status stream.Status, data []json.RawMessage) error {
	w.calls <- struct{}{}
	defer func() { <-w.calls }()
	if w.isForgotten(first) {
		return nil
	}
	patience := showPatience
	if w.late() {
		patience = lastPatience
	}
	ctx, cancel := context.WithTimeout(w.of.ctx, patience)
	defer cancel()
	if first.replayed {
		_, run, s, err := w.of.store.Last(ctx, w.key)
		if err != nil || s.Over() || run != first.RunID {
			return err
		}
	}
	last, err := w.of.store.Append(ctx, w.key, first.RunID, first.epoch, status, data)
	if err == nil {
		w.last = last
	}
	return err
}

// landed reports whether an Append that got no answer has taken effect: no other appends for this owner.
func (w *show) landed(n int) (bool, error) {
	if w.last == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(w.of.ctx, showPatience)
	defer cancel()
	last, _, _, err := w.of.store.Last(ctx, w.key)
	if err != nil || last != w.last+int64(n) {
		return false, err
	}
	w.last = last
	return true, nil
}

// unshown tells operators of events that readers will not see.
func (r *reporter) unshown(session string, events int, err error) {
	r.meters.drop(events)
	r.log.Error("events not shown: the stream store does not take them", "session", session,
		slog.Int("events", events), r.why(err))
}

// statusOf returns what may follow the events.
func statusOf(batch []Event) stream.Status {
	switch batch[len(batch)-1].Kind {
	case TurnSettled:
		return stream.Ended
	case TurnFailed:
		return stream.Failed
	case TurnSuspended:
		return stream.Paused
	}
	return stream.Active
}

// chunksOf returns the events as JSON. A token that is too long for a chunk is cut.
func chunksOf(batch []Event) (data []json.RawMessage) {
	for _, ev := range batch {
		if strings.ContainsRune(ev.Delta, 0) { // no store takes it
			ev.Delta = strings.ReplaceAll(ev.Delta, "\x00", string(utf8.RuneError))
		}
		for len(ev.Delta) > mostDelta {
			head := ev
			head.Delta, ev.Delta = cutText(ev.Delta, mostDelta)
			data = append(data, head.chunk())
		}
		data = append(data, ev.chunk())
	}
	return data
}

// cutText cuts text after n bytes at most, between two characters.
func cutText(text string, n int) (head, rest string) {
	for cut := n; cut > n-utf8.UTFMax; cut-- {
		if utf8.RuneStart(text[cut]) {
			return text[:cut], text[cut:]
		}
	}
	return text[:n], text[n:]
}

func (ev Event) chunk() json.RawMessage {
	doc, err := json.Marshal(ev)
	if err != nil { // a Usage that is no number
		ev.Usage = Usage{}
		doc, _ = json.Marshal(ev)
	}
	return slices.Clip(doc)
}

// forget forgets the events of a session that the owner with this epoch has deleted. A former owner may still be at
// work. What it says from now on has a lower epoch, so the store does not take it.
func (s *shows) forget(ctx context.Context, session string, epoch int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showPatience)
	defer cancel()
	defer s.pause(ctx, session, epoch)()
	k := stream.Key{Orchestrator: s.name, Session: session}
	if err := s.store.Delete(ctx, k); err != nil {
		return err
	}
	_, err := s.store.Append(ctx, k, "deleted", epoch, stream.Ended, nil)
	return err
}

// pause drops the events of session that wait, none of which is of a later epoch, and keeps this process from appending
// any until goOn is called. A call that the store does not answer is waited for only as long as lastPatience.
func (s *shows) pause(ctx context.Context, session string, epoch int64) (goOn func()) {
	s.mu.Lock()
	w := s.open[session]
	if w != nil {
		w.events.discard()
		w.forgotten = epoch
	}
	s.mu.Unlock()
	if w == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, lastPatience)
	defer cancel()
	select {
	case w.calls <- struct{}{}:
		return func() { <-w.calls }
	case <-ctx.Done():
		return func() {}
	}
}

// isForgotten reports whether an event is of a session that was deleted since.
func (w *show) isForgotten(ev Event) bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return ev.epoch <= w.forgotten
}
