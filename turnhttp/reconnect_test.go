package turnhttp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Readers of two processes are cut off at random, and come back with the number of their last event, to either process.
// Each sees every event of every turn once, in order.
func TestReconnect(t *testing.T) {
	reconnects, readers, words := int64(1000), 10, 40
	switch {
	case soak():
		reconnects = 10_500
	case raced:
		reconnects, readers, words = 200, 4, 12
	}
	w := newWorld()
	var clients []*http.Client
	for range 2 {
		clients = append(clients, served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())))
	}
	const turns = 3
	said := strings.Repeat("word ", words)
	f := flights{clients: clients, events: w.events, visits: make(chan struct{}, 1)}
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			r := &flighty{flights: &f, test: t, patience: leaveFirst}
			for last := false; !last || r.more; {
				last = f.ended.Load()
				r.visit(t.Context())
			}
			if r.settled != turns || strings.Count(r.text, "word") != words*turns {
				t.Errorf("a reader saw %d turns and %d words", r.settled, strings.Count(r.text, "word"))
			}
		})
	}
	for i := range int64(turns) {
		q := says("slow " + said)
		q.key = fmt.Sprint(i)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if status, doc := all(t, clients[i%2], q); status != 200 {
				t.Errorf("a turn is %d %s", status, doc)
			}
		}()
		for word := range int64(words) {
			for f.count.Load() < reconnects*(i*int64(words)+word)/int64(turns*words) {
				<-f.visits
			}
			w.hold <- struct{}{}
		}
		<-done
	}
	f.ended.Store(true)
	group.Wait()
	t.Logf("%d reconnects", f.count.Load())
}

// flights are the readers of a test.
type flights struct {
	clients []*http.Client
	events  stream.Store
	count   atomic.Int64
	ended   atomic.Bool

	// visits has an element after a visit.
	visits chan struct{}
}

// leaveFirst is how long a reader stays at most, on a machine that is fast enough.
const leaveFirst = 10 * time.Millisecond

// A flighty reads events, and leaves after a few, or after a few milliseconds.
type flighty struct {
	*flights
	test *testing.T

	// patience doubles while the machine is too slow to give the reader an event that is there.
	patience time.Duration
	last     int64
	more     bool // there may be more events
	text     string
	settled  int
}

func (f *flighty) visit(ctx context.Context) {
	before, parent := f.last, ctx
	defer func() {
		f.learn(parent, f.last > before)
		f.count.Add(1)
		select {
		case f.visits <- struct{}{}:
		default:
		}
	}()
	ctx, leave := context.WithTimeout(parent, rand.N(f.patience))
	defer leave()
	q := request{method: "GET", path: "/sessions/s/events", header: map[string]string{
		"Last-Event-ID": strconv.FormatInt(f.last, 10),
	}}
	res, err := f.clients[rand.IntN(len(f.clients))].Do(q.make(ctx, base))
	if err != nil {
		if ctx.Err() == nil {
			f.test.Error(err)
		}
		f.more = true
		return
	}
	defer res.Body.Close()
	f.more = res.StatusCode == 200
	if res.StatusCode == 204 {
		return
	}
	if res.StatusCode != 200 {
		f.test.Errorf("a reader is told %d", res.StatusCode)
		return
	}
	left := rand.IntN(4)
	err = readEvents(res.Body, func(ev event) bool {
		if ev.kind == "reply" {
			return false
		}
		if want := strconv.FormatInt(f.last+1, 10); ev.id != want {
			f.test.Errorf("event %s follows %d", ev.id, f.last)
		}
		f.last++
		f.see(ev)
		left--
		return left >= 0
	})
	if err != nil && ctx.Err() == nil {
		f.test.Error(fmt.Errorf("after %d: %w", f.last, err))
	}
}

// learn stays longer next time if there was an event, and the reader has seen none.
func (f *flighty) learn(ctx context.Context, seen bool) {
	if seen {
		f.patience = max(f.patience/2, leaveFirst)
		return
	}
	key := stream.Key{Orchestrator: "bot", Session: "s"}
	if last, _, _, err := f.events.Last(ctx, key); err == nil && last > f.last {
		f.patience *= 2
	}
}

func (f *flighty) see(ev event) {
	switch ev.kind {
	case "token":
		_, delta, _ := strings.Cut(ev.data, `"delta":"`)
		delta, _, _ = strings.Cut(delta, `"`)
		f.text += delta
	case "turn.settled":
		f.settled++
	}
}
