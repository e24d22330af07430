package flow

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// mostWait bounds a call to the store. What is cut off is repeated.
const mostWait = 10 * time.Second

// A writer makes the entries of several runs one call of the store. The first caller leads: it writes what is queued,
// and then hands the lead to a caller that came meanwhile. A caller that is alone pays no detour.
type writer struct {
	store workflow.Store
	most  int // leaders at a time

	mu      sync.Mutex // protects following fields
	leaders int
	queue   []*pending
}

type pending struct {
	entry workflow.Entry
	err   error
	lead  chan bool // true: lead now
}

func (w *writer) write(e workflow.Entry) error {
	p := &pending{entry: e}
	w.mu.Lock()
	if w.leaders < w.most {
		w.leaders++
	} else {
		p.lead = make(chan bool, 1)
		w.queue = append(w.queue, p)
		w.mu.Unlock()
		if !<-p.lead {
			return p.err
		}
		w.mu.Lock()
	}
	batch := append([]*pending{p}, w.next()...)
	w.mu.Unlock()
	w.flush(batch)
	w.mu.Lock()
	if len(w.queue) > 0 {
		w.queue[0].lead <- true
		w.queue = w.queue[1:]
	} else {
		w.leaders--
	}
	w.mu.Unlock()
	for _, q := range batch[1:] {
		q.lead <- false
	}
	return p.err
}

// mostEntries is how many entries one call has.
const mostEntries = 256

// next takes what is queued. The caller holds mu.
func (w *writer) next() []*pending {
	n := min(len(w.queue), mostEntries)
	batch := slices.Clone(w.queue[:n])
	w.queue = append(w.queue[:0], w.queue[n:]...)
	return batch
}

// flush writes a batch. Entries of one run become one if they can, and go one after the other if not.
func (w *writer) flush(batch []*pending) {
	slices.SortStableFunc(batch[1:], func(a, b *pending) int { return strings.Compare(a.entry.Run, b.entry.Run) })
	first := make(map[string]*pending, len(batch))
	together, alone := make([]*pending, 0, len(batch)), []*pending(nil)
	for _, p := range batch {
		if first[p.entry.Run] == nil {
			first[p.entry.Run] = p
			together = append(together, p)
		} else {
			alone = append(alone, p)
		}
	}
	w.call(together)
	for _, p := range alone {
		w.call([]*pending{p})
	}
}

// call writes entries of different runs. If the store takes none of them, each is tried alone: one that cannot be
// written fails no other.
func (w *writer) call(batch []*pending) {
	entries := make([]workflow.Entry, len(batch))
	for i, p := range batch {
		entries[i] = p.entry
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	verdicts, err := w.store.Write(ctx, entries)
	cancel()
	if err != nil && len(batch) > 1 && store.IsVerdict(err) {
		for _, p := range batch {
			w.call([]*pending{p})
		}
		return
	}
	for i, p := range batch {
		if p.err = err; err == nil {
			p.err = verdicts[i]
		}
	}
}
