package tail_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

var key = stream.Key{Orchestrator: "bot", Session: "s"}

// A server is one session in a store. It counts what it is asked.
type server struct {
	mu           sync.Mutex
	last         int64
	over, forgot bool
	down         error
	asked, read  int
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) next(_ context.Context, seq int64) (tail.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if s.down != nil || s.forgot {
		return tail.Page{}, cmp.Or(s.down, stream.ErrGone)
	}
	p := tail.Page{Seq: s.last, Last: true, Over: s.over}
	for n := seq + 1; n <= s.last; n++ {
		p.Chunks = append(p.Chunks, stream.Chunk{Seq: n, Run: "r", Data: json.RawMessage("1")})
	}
	return p, nil
}

func (s *server) ask(_ context.Context, marks []tail.Mark) (wrong []tail.Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, m := range marks {
		if s.forgot || m.Seq != s.last || s.over {
			wrong = append(wrong, m)
		}
	}
	return wrong, s.down
}

func (s *server) asks() (n int) {
	s.set(func() { n, s.asked = s.asked, 0 })
	return n
}

// start starts readers. Each sends the numbers that it gets, and its error, or nil, at the end.
func start(ctx context.Context, h *tail.Hub, s *server, n int) (numbers chan int64, ends chan error) {
	numbers, ends = make(chan int64, 1000), make(chan error, n)
	for range n {
		go func() {
			for c, err := range h.Read(ctx, key, 0, s.next) {
				if err != nil {
					ends <- err
					return
				}
				numbers <- c.Seq
			}
			ends <- nil
		}()
	}
	return numbers, ends
}

func source(s *server, listen func(context.Context, *tail.Feed)) tail.Source {
	return tail.Source{
		ID: func(k stream.Key) string { return k.Session }, Ask: s.ask, Listen: listen, Poll: 100 * time.Millisecond,
	}
}

// Without a listener all readers are asked about at once, as often as Poll says.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{last: 1}
		numbers, ends := start(t.Context(), tail.NewHub(source(s, nil)), s, 50)
		time.Sleep(time.Second)
		if len(numbers) != 50 || s.asks() > 11 {
			t.Fatalf("%d readers have the chunk", len(numbers))
		}
		s.set(func() { s.read = 0 })
		time.Sleep(10 * time.Second)
		if n := s.asks(); n < 95 || n > 105 || s.read != 0 {
			t.Errorf("%d questions and %d reads in 10 s", n, s.read)
		}
		s.set(func() { s.last = 2 })
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		if len(numbers) != 100 {
			t.Errorf("%d readers have the second chunk", len(numbers)-50)
		}
		s.set(func() { s.over = true })
		for range 50 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		s.asks()
		time.Sleep(time.Minute)
		if n := s.asks(); n != 0 {
			t.Errorf("%d questions when no reader is left", n)
		}
	})
}

// A listener makes questions rare. What it tells wakes the readers at once, and what it does not is found out.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{last: 1}
		feeds := make(chan *tail.Feed, 1)
		h := tail.NewHub(source(s, func(ctx context.Context, f *tail.Feed) {
			f.HearsAll(true)
			feeds <- f
			<-ctx.Done()
		}))
		numbers, ends := start(t.Context(), h, s, 10)
		f := <-feeds
		time.Sleep(time.Second)
		s.asks()
		time.Sleep(time.Minute)
		if n := s.asks(); n > 13 {
			t.Errorf("%d questions in a minute", n)
		}
		s.set(func() { s.last, s.read = 2, 0 })
		f.Tell("s", 2, false)
		f.Tell("s", 1, false) // late
		f.Tell("another", 9, true)
		synctest.Wait()
		if len(numbers) != 20 || s.read > 20 {
			t.Errorf("%d chunks after %d reads", len(numbers), s.read)
		}
		s.set(func() { s.last = 3 }) // and none tells
		time.Sleep(6 * time.Second)
		if len(numbers) != 30 {
			t.Errorf("%d chunks", len(numbers))
		}
		f.HearsAll(false)
		s.asks()
		time.Sleep(time.Second)
		if n := s.asks(); n < 8 {
			t.Errorf("%d questions in a second without a listener", n)
		}
		s.set(func() { s.forgot = true })
		for range 10 {
			if err := <-ends; !errors.Is(err, stream.ErrGone) {
				t.Error(err)
			}
		}
	})
}

// What changed before the listener heard is found out when it hears.
func TestHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{last: 1}
		subscribe := make(chan struct{})
		from := source(s, func(ctx context.Context, f *tail.Feed) {
			<-subscribe
			for id := range f.IDs() {
				f.Hears(id, true)
				f.StillHears(id)
			}
			<-ctx.Done()
		})
		from.Poll = time.Hour
		numbers, ends := start(t.Context(), tail.NewHub(from), s, 3)
		time.Sleep(time.Second)
		s.set(func() { s.last, s.over = 2, true })
		time.Sleep(time.Second)
		if len(numbers) != 3 {
			t.Fatalf("%d chunks", len(numbers))
		}
		close(subscribe)
		for range 3 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
	})
}

// A reader that waits outlasts a short outage of its server. After a longer one it gets the error.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{last: 1}
		numbers, ends := start(t.Context(), tail.NewHub(source(s, nil)), s, 2)
		down := errors.New("down")
		time.Sleep(time.Second)
		s.set(func() { s.down = down })
		time.Sleep(9 * time.Second)
		s.set(func() { s.down, s.last = nil, 2 })
		time.Sleep(time.Second)
		if len(numbers) != 4 || len(ends) > 0 {
			t.Fatalf("%d chunks, and %d readers have ended", len(numbers), len(ends))
		}
		s.set(func() { s.down = down })
		time.Sleep(11 * time.Second)
		for range 2 {
			if err := <-ends; !errors.Is(err, down) {
				t.Error(err)
			}
		}
	})
}

// A reader whose own read fails tries again for a while. Before its first answer it does not, and what is gone is gone.
func TestReadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		s := &server{last: 1, down: down}
		h := tail.NewHub(source(s, nil))
		began := time.Now()
		_, ends := start(t.Context(), h, s, 1)
		if err := <-ends; !errors.Is(err, down) || time.Since(began) > 0 {
			t.Errorf("at first: %v after %v", err, time.Since(began))
		}
		s.set(func() { s.down = nil })
		numbers, ends := start(t.Context(), h, s, 1)
		time.Sleep(time.Second)
		s.set(func() { s.down, s.last = down, 2 })
		h.Tell("s", 2, false)
		time.Sleep(8 * time.Second)
		s.set(func() { s.down = nil })
		time.Sleep(2 * time.Second)
		if len(numbers) != 2 || len(ends) > 0 {
			t.Fatalf("%d chunks, and %d readers have ended", len(numbers), len(ends))
		}
		s.set(func() { s.down = down })
		h.Tell("s", 3, false)
		time.Sleep(9 * time.Second)
		if len(ends) > 0 {
			t.Fatalf("the reader has ended: %v", <-ends)
		}
		time.Sleep(3 * time.Second)
		if err := <-ends; !errors.Is(err, down) {
			t.Error(err)
		}
		s.set(func() { s.down, s.forgot = nil, true })
		if err := func() error {
			began = time.Now()
			_, ends := start(t.Context(), h, s, 1)
			return <-ends
		}(); !errors.Is(err, stream.ErrGone) || time.Since(began) > 0 {
			t.Errorf("what is gone: %v after %v", err, time.Since(began))
		}
	})
}

var errLeft = errors.New("the reader has left")

// A reader whose ctx ends, or whose loop is left, leaves nothing behind. Others come and go meanwhile.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{last: 1}
		heard := 0
		h := tail.NewHub(source(s, func(ctx context.Context, f *tail.Feed) {
			heard++
			f.HearsAll(true)
			<-ctx.Done()
			f.HearsAll(false)
		}))
		for range 5 {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, ends := start(ctx, h, s, 5)
			time.Sleep(time.Second)
			for _, err := range h.Read(t.Context(), key, 0, s.next) {
				if err != nil {
					t.Error(err)
				}
				break
			}
			h.Tell("s", 1, false)
			cancel(errLeft)
			for range 5 {
				if err := <-ends; !errors.Is(err, errLeft) {
					t.Error(err)
				}
			}
			synctest.Wait() // until they have left
		}
		if heard != 5 {
			t.Errorf("%d listeners, want one for each time", heard)
		}
	})
}
