package tail

import (
	"context"
	"sync"
	"time"
)

// A Feed tells a Hub what changes, as long as the Hub has seats. Source.Listen uses it.
type Feed struct {
	hub  *Hub
	stop context.CancelFunc
	jobs sync.WaitGroup

	// all says that the Feed hears of all sessions. The Hub's mu protects it.
	all bool

	// poked and moved have an element if the topics have changed: for who asks, and for who listens.
	poked, moved chan struct{}
}

func newFeed(ctx context.Context, h *Hub) *Feed {
	ctx, stop := context.WithCancel(ctx)
	f := &Feed{hub: h, stop: stop, poked: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	f.jobs.Go(func() { f.poll(ctx) })
	if h.source.Listen != nil {
		f.jobs.Go(func() { h.source.Listen(ctx, f) })
	}
	return f
}

// end ends the goroutines, and waits for them.
func (f *Feed) end() {
	f.stop()
	f.jobs.Wait()
}

func (f *Feed) changed() {
	poke(f.poked)
	poke(f.moved)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Tell is Hub.Tell.
func (f *Feed) Tell(id string, last int64, over bool) { f.hub.Tell(id, last, over) }

// Moved has an element if sessions were added to IDs, or have left.
func (f *Feed) Moved() <-chan struct{} { return f.moved }

// IDs returns the sessions that readers wait for.
func (f *Feed) IDs() map[string]bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	ids := make(map[string]bool, len(f.hub.topics))
	if f.hub.feed == f {
		for id := range f.hub.topics {
			ids[id] = true
		}
	}
	return ids
}

// HearsAll says that the Feed hears of all sessions from now on, or no longer.
func (f *Feed) HearsAll(heard bool) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.hub.feed != f {
		return
	}
	f.all = heard
	for _, t := range f.hub.topics {
		t.hears(heard)
	}
	poke(f.poked)
}

// Hears says that the Feed hears of one session from now on, or no longer.
func (f *Feed) Hears(id string, heard bool) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if t := f.hub.topics[id]; f.hub.feed == f && t != nil {
		t.hears(heard)
		poke(f.poked)
	}
}

// StillHears is Hears of a session that the Feed has heard of before. If the Hub knows, it does nothing.
func (f *Feed) StillHears(id string) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if t := f.hub.topics[id]; f.hub.feed == f && t != nil && !t.heard {
		t.hears(true)
		poke(f.poked)
	}
}

// hears notes whether the Feed hears of the session. What came before was not heard: the readers that wait are to be
// asked about, and those that look at the store now have to look again.
func (t *topic) hears(heard bool) {
	t.heard, t.check = heard, true
	for s := range t.seats {
		if !s.waits {
			s.tell(0, true)
		}
	}
}

// poll asks about marks while ctx lasts.
func (f *Feed) poll(ctx context.Context) {
	p := poller{feed: f, asked: time.Now(), swept: time.Now()}
	for {
		timer := time.NewTimer(time.Until(p.next()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.poked:
			timer.Stop()
		case <-timer.C:
			p.ask(ctx)
		}
	}
}

type poller struct {
	feed *Feed

	// asked is when the last call of Ask has ended, cost how long it took, and swept when all marks were asked about.
	asked, swept time.Time
	cost         time.Duration

	// failed is when the first call failed since one had an answer; zero if the last one had.
	failed time.Time
}

// next returns when to ask.
func (p *poller) next() time.Time {
	h := p.feed.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	at := p.swept.Add(slow)
	for _, t := range h.topics {
		switch {
		case t.check && p.failed.IsZero():
			at = earlier(at, p.asked.Add(max(gather, 2*p.cost)))
		case !t.heard || t.check:
			at = earlier(at, p.asked.Add(max(h.source.Poll, share*p.cost)))
		}
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ask asks about the marks that are due, and wakes the readers whose marks are wrong.
func (p *poller) ask(ctx context.Context) {
	began := time.Now()
	all := began.Sub(p.swept) >= slow
	marks := p.marks(all)
	if all {
		p.swept = began
	}
	if len(marks) == 0 {
		p.asked = began
		return
	}
	asking, cancel := context.WithTimeout(ctx, askPatience)
	wrong, err := p.feed.hub.source.Ask(asking, marks)
	cancel()
	p.asked = time.Now()
	p.cost = p.asked.Sub(began)
	switch {
	case err == nil:
		p.failed = time.Time{}
	case p.failed.IsZero():
		p.failed = began
	case p.asked.Sub(p.failed) > patience:
		p.feed.hub.fail(marks, err)
		p.failed = time.Time{}
	}
	p.feed.hub.wake(wrong, marks, err != nil)
}

// marks returns the marks of readers that the Feed does not hear for, or all, each once.
func (p *poller) marks(all bool) (marks []Mark) {
	h := p.feed.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		if !all && t.heard && !t.check {
			continue
		}
		t.check = false
		seen := make(map[int64]bool, 1)
		for s := range t.seats {
			if s.waits && !seen[s.seq] {
				seen[s.seq] = true
				marks = append(marks, Mark{t.key, s.seq})
			}
		}
	}
	return marks
}

// fail gives the readers an error.
func (h *Hub) fail(marks []Mark, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range marks {
		if t := h.topics[h.source.ID(m.Key)]; t != nil {
			for s := range t.seats {
				if s.waits {
					s.err = err
					s.tell(0, true)
				}
			}
		}
	}
}

// wake wakes the readers whose marks are wrong. If the store did not answer, the marks are to be asked about again.
func (h *Hub) wake(wrong, asked []Mark, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range asked {
		if t := h.topics[h.source.ID(m.Key)]; t != nil && failed {
			t.check = true
		}
	}
	for _, m := range wrong {
		if t := h.topics[h.source.ID(m.Key)]; t != nil {
			for s := range t.seats {
				if s.waits && s.seq == m.Seq {
					s.tell(0, true)
				}
			}
		}
	}
}
