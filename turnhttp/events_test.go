package turnhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// base is the address of a service of serve.
const base = "http://pipe"

// do sends a request, and returns the response.
func do(t *testing.T, c *http.Client, q request) *http.Response {
	t.Helper()
	res, err := c.Do(q.make(t.Context(), base))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// all sends a request, and returns its status and its body.
func all(t *testing.T, c *http.Client, q request) (int, []byte) {
	t.Helper()
	res := do(t, c, q)
	defer res.Body.Close()
	doc, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, doc
}

var (
	sayStream = request{
		method: "POST", path: "/sessions/s/turns", key: "k", body: `{"message":"slow one two three"}`,
		header: map[string]string{"Accept": "text/event-stream"},
	}
	getEvents = routes["events"]
)

// A shown holds the events that a reader has seen.
type shown struct {
	kinds []string
	text  string
	last  int64
	reply *turnOf
	wrong string // the type of a problem
}

// see adds an event. It checks that no number is missing, and none comes twice.
func (s *shown) see(t *testing.T, ev event) {
	t.Helper()
	if ev.id != "" {
		n, err := strconv.ParseInt(ev.id, 10, 64)
		if err != nil || s.last > 0 && n != s.last+1 {
			t.Errorf("event %s follows %d", ev.id, s.last)
		}
		s.last = n
	}
	s.kinds = append(s.kinds, ev.kind)
	switch ev.kind {
	case "reply":
		doc := decode[turnOf](t, []byte(ev.data))
		s.reply = &doc
	case "problem":
		s.wrong = typeOf([]byte(ev.data))
	default:
		s.text += decode[orchestrator.Event](t, []byte(ev.data)).Delta
	}
}

func read(t *testing.T, r io.Reader, each func(event)) (s shown) {
	t.Helper()
	if err := readEvents(r, func(ev event) bool {
		s.see(t, ev)
		if each != nil {
			each(ev)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	return s
}

// whole reports whether the reader has seen all of a turn that says "one two three", and its reply.
func (s shown) whole() bool {
	const kinds = "turn.started routed intent.started token token token intent.ended turn.settled reply"
	return strings.Join(s.kinds, " ") == kinds && s.text == "one two three " && s.reply.Reply == "one two three"
}

// A client that asks for events sees the turn as it goes on, and then the reply. Readers in other processes see the
// same, with the same numbers, while the turn is at work and after it.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		here := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		there := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		var group sync.WaitGroup
		defer group.Wait()
		res := do(t, here, sayStream)
		defer res.Body.Close()
		group.Go(func() {
			s := read(t, res.Body, nil)
			if !s.whole() {
				t.Errorf("the client saw %q", s.kinds)
			}
		})
		other := do(t, there, getEvents)
		defer other.Body.Close()
		group.Go(func() {
			s := read(t, other.Body, nil)
			if !s.whole() || s.last != 8 {
				t.Errorf("another process shows %q, up to %d", s.kinds, s.last)
			}
		})
		for range 3 {
			time.Sleep(time.Second)
			w.hold <- struct{}{}
		}
		group.Wait()
		if status, _ := all(t, there, request{method: "GET", path: "/sessions/s/events?after=8"}); status != 204 {
			t.Errorf("after the end: %d", status)
		}
		again := do(t, there, sayStream)
		defer again.Body.Close()
		if s := read(t, again.Body, nil); s.reply == nil || !s.reply.Replayed || len(s.kinds) != 1 {
			t.Errorf("a repeat shows %q", s.kinds)
		}
		late := do(t, there, getEvents)
		defer late.Body.Close()
		if s := read(t, late.Body, nil); !s.whole() {
			t.Errorf("a late reader saw %q", s.kinds)
		}
	})
}

// A repeat with events, in another process, sees the turn that is at work.
func TestEventsOfRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		here := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		there := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		first := do(t, here, sayStream)
		defer first.Body.Close()
		time.Sleep(time.Second)
		var group sync.WaitGroup
		for _, c := range []*http.Client{here, there} {
			res := do(t, c, sayStream)
			group.Go(func() {
				defer res.Body.Close()
				if s := read(t, res.Body, nil); !s.whole() {
					t.Errorf("a repeat shows %q", s.kinds)
				}
			})
		}
		for range 3 {
			time.Sleep(time.Second)
			w.hold <- struct{}{}
		}
		group.Wait()
		if n := w.ran.Load(); n != 1 {
			t.Errorf("the bot ran %d times", n)
		}
	})
}

// Without a stream store a client sees its own turn, without numbers.
func TestEventsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.events = nil
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		close(w.hold)
		res := do(t, c, sayStream)
		defer res.Body.Close()
		if s := read(t, res.Body, nil); !s.whole() || s.last != 0 {
			t.Errorf("the client saw %q, up to %d", s.kinds, s.last)
		}
	})
}

// Behind another turn, a client sees its own events only.
func TestEventsBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		first := do(t, c, sayStream)
		defer first.Body.Close()
		time.Sleep(time.Second)
		second := sayStream
		second.key, second.body = "k2", `{"message":"say four"}`
		res := do(t, c, second)
		defer res.Body.Close()
		time.Sleep(time.Second)
		close(w.hold)
		if s := read(t, res.Body, nil); s.text != "four " || s.reply == nil || s.last != 14 {
			t.Errorf("the client saw %q, %q", s.kinds, s.text)
		}
	})
}

// A turn that fails after its first event ends the events with a problem. So does one that waits for a person.
func TestEventsOfFailure(t *testing.T) {
	for text, want := range map[string]string{"fail": "bot-failed", "pay": "suspended"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
			q := sayStream
			q.body = `{"message":"` + text + `"}`
			res := do(t, c, q)
			defer res.Body.Close()
			s := read(t, res.Body, nil)
			if s.wrong != want || s.last == 0 {
				t.Errorf("%s: the client saw %q and %q", text, s.kinds, s.wrong)
			}
			time.Sleep(time.Second)
			later := do(t, c, getEvents)
			defer later.Body.Close()
			if want == "bot-failed" {
				want = "turn-failed"
			}
			if s := read(t, later.Body, nil); s.wrong != want {
				t.Errorf("%s: a later reader saw %q and %q", text, s.kinds, s.wrong)
			}
		})
	}
}

// A call that is refused before its turn begins is an ordinary problem.
func TestEventsOfRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		for body, want := range map[string]int{`{"message":"refuse"}`: 422, `{"message":1}`: 400} {
			q := sayStream
			q.body = body
			res := do(t, c, q)
			_ = res.Body.Close()
			if kind := res.Header.Get("Content-Type"); res.StatusCode != want || kind != "application/problem+json" {
				t.Errorf("%s: %d %s", body, res.StatusCode, kind)
			}
		}
	})
}

// While nothing happens, a comment comes every 15 seconds. A reader whose turn says nothing at all gets its status
// early.
func TestComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		began := time.Now()
		res := do(t, c, sayStream)
		defer res.Body.Close()
		comments := 0
		err := scan(res.Body, func(line string) bool {
			if line == ": " {
				comments++
			}
			return comments < 4
		})
		if took := time.Since(began); err != nil || took < 45*time.Second || took > 61*time.Second {
			t.Errorf("4 comments took %v: %v", took, err)
		}
		later := do(t, c, request{method: "GET", path: "/sessions/s/events?after=3"})
		defer later.Body.Close()
		if took := time.Since(began); took > 62*time.Second {
			t.Errorf("the status of a quiet turn came after %v", took)
		}
		close(w.hold)
	})
}

// A reader that takes nothing is cut off, and one that has gone ends at once. Neither slows the turn.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		var open sync.WaitGroup
		c := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Done()
			h.ServeHTTP(w, r)
		}))
		q := sayStream
		q.body = `{"message":"slow ` + strings.Repeat("word ", 200) + `"}`
		slow := do(t, c, q)
		defer slow.Body.Close()
		slower := do(t, c, getEvents)
		defer slower.Body.Close()
		ctx, leave := context.WithCancel(t.Context())
		gone, err := c.Do(getEvents.make(ctx, base))
		if err != nil {
			t.Fatal(err)
		}
		defer gone.Body.Close()
		leave()
		began := time.Now()
		close(w.hold)
		q.header = nil
		status, _ := all(t, c, q)
		if took := time.Since(began); status != 200 || took > time.Second {
			t.Errorf("beside slow readers the turn is %d, and took %v", status, took)
		}
		open.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("slow readers stayed %v", took)
		}
	})
}

// The turn of a client that has gone goes on.
func TestClientGone(t *testing.T) {
	for _, q := range []request{sayStream, with("turn", func(q *request) { q.body = sayStream.body })} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			bot := w.bot(t, w.definition(), nil)
			c := served(t, turnhttp.Handler(bot, w.options()))
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			if res, err := c.Do(q.make(ctx, base)); err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err == nil {
					t.Fatal("the client was answered")
				}
			}
			close(w.hold)
			synctest.Wait()
			status, doc := all(t, c, with("turn", func(q *request) { q.body = sayStream.body }))
			if turn := decode[turnOf](t, doc); status != 200 || !turn.Replayed || turn.Reply != "one two three" {
				t.Errorf("a repeat is %d %s", status, doc)
			}
			if n := w.ran.Load(); n != 1 {
				t.Errorf("the bot ran %d times", n)
			}
		})
	}
}

// Shutdown of the bot ends the readers of events at once, and that of a turn when the turn is handed off.
func TestShutdownEndsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.bot(t, w.definition(), nil)
		here := served(t, turnhttp.Handler(bot, w.options()))
		there := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		turn := do(t, here, sayStream)
		defer turn.Body.Close()
		w.hold <- struct{}{}
		time.Sleep(time.Second)
		reader := do(t, here, getEvents)
		defer reader.Body.Close()
		down := make(chan error)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		go func() { down <- bot.Shutdown(ctx) }()
		seen := read(t, reader.Body, nil)
		if took := time.Since(began); took > time.Second || seen.reply != nil || seen.wrong != "" {
			t.Errorf("the reader stayed %v, and saw %q", took, seen.kinds)
		}
		if res := do(t, here, getEvents); res.StatusCode != 200 { // an EventSource gives up after another status
			t.Errorf("a new reader is %d", res.StatusCode)
		} else {
			_ = res.Body.Close()
		}
		if s := read(t, turn.Body, nil); s.wrong != "unknown-outcome" {
			t.Errorf("the client of the turn saw %q, %q", s.kinds, s.wrong)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		close(w.hold)
		resumed := make(chan int)
		go func() {
			status, _ := all(t, there, routes["resume"])
			resumed <- status
		}()
		// The reader goes on in the other process.
		res := do(t, there, with("events", func(q *request) {
			q.header = map[string]string{"Last-Event-ID": strconv.FormatInt(seen.last, 10)}
		}))
		defer res.Body.Close()
		text := seen.text
		if err := readEvents(res.Body, func(ev event) bool {
			seen.see(t, ev)
			return true
		}); err != nil || seen.reply == nil || seen.reply.Reply != "one two three" {
			t.Errorf("after %q the reader saw %q: %v", text, seen.kinds, err)
		}
		if status := <-resumed; status != 200 {
			t.Errorf("the resume is %d", status)
		}
	})
}

// A body that does not arrive is 408, and leaves nothing, also on a route that takes no body. It may drip all the time.
func TestSlowRequest(t *testing.T) {
	for name, q := range routes {
		for _, drips := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { slowRequest(t, name, q, drips) })
		}
	}
}

func slowRequest(t *testing.T, name string, q request, drips bool) {
	w := newWorld()
	conn := connect(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
	began := time.Now()
	const begun = "%s %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n" +
		"Content-Type: application/json\r\n\r\n{"
	if _, err := fmt.Fprintf(conn, begun, q.method, q.path); err != nil {
		t.Fatal(err)
	}
	if drips {
		answered, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for err := error(nil); err == nil; _, err = io.WriteString(conn, " ") {
				select {
				case <-answered:
					return
				case <-time.After(time.Second):
				}
			}
		}()
		defer func() {
			close(answered)
			_ = conn.Close()
			<-stopped
		}()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s: a slow body gets no answer: %v", name, err)
		return
	}
	_ = res.Body.Close()
	if took := time.Since(began); res.StatusCode != 408 || took > time.Minute {
		t.Errorf("%s: a slow body is %d, after %v", name, res.StatusCode, took)
	}
	w.wantNothing(t)
}

// A turn may take longer than the timeouts of the server.
func TestServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := bubble.NewPipe()
		server := &http.Server{
			Handler:     turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()),
			ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		}
		done := make(chan error)
		go func() { done <- server.Serve(p) }()
		defer func() {
			_ = server.Close()
			if err := <-done; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}()
		c := p.Client()
		time.AfterFunc(time.Minute, func() { close(w.hold) })
		q := sayStream
		q.header = nil
		var group sync.WaitGroup
		group.Go(func() {
			if status, doc := all(t, c, q); status != 200 {
				t.Errorf("the turn is %d %s", status, doc)
			}
		})
		time.Sleep(time.Second)
		res := do(t, c, getEvents)
		defer res.Body.Close()
		if s := read(t, res.Body, nil); s.reply == nil {
			t.Errorf("the reader saw %q", s.kinds)
		}
		group.Wait()
	})
}

// The owner of a turn has died after the settle, before it showed the end. A reader gets the reply all the same.
func TestEventsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.bot(t, w.definition(), nil)
		c := served(t, turnhttp.Handler(bot, w.options()))
		if status, _ := all(t, c, routes["turn"]); status != 200 {
			t.Fatal(status)
		}
		time.Sleep(time.Second)
		data, err := json.Marshal(orchestrator.Event{Kind: orchestrator.Token, Delta: "x"})
		if err != nil {
			t.Fatal(err)
		}
		key := stream.Key{Orchestrator: "bot", Session: "s"}
		last, err := w.events.Append(t.Context(), key, "run", 1<<62, stream.Active, []json.RawMessage{data})
		if err != nil {
			t.Fatal(err)
		}
		res := do(t, c, request{method: "GET", path: "/sessions/s/events?after=" + strconv.FormatInt(last, 10)})
		defer res.Body.Close()
		if s := read(t, res.Body, nil); s.reply == nil || s.reply.Reply != "hello" {
			t.Errorf("the reader saw %d %v %q", res.StatusCode, res.Header, s.kinds)
		}
	})
}

// The events of a stream store that is away are missing, and the reply is not.
func TestEventsWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.events = downStream{w.events, errAway}
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		close(w.hold)
		res := do(t, c, sayStream)
		defer res.Body.Close()
		if s := read(t, res.Body, nil); s.reply == nil || s.last != 0 || s.text != "one two three " {
			t.Errorf("the reader saw %q", s.kinds)
		}
	})
}

// A plainWriter is a ResponseWriter behind some middleware: it cannot flush, and has no deadlines.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }

// Behind a middleware that cannot flush, all events come at the end.
func TestEventsBehindMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		close(w.hold)
		res := sayStream.to(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(plainWriter{w}, r)
		}))
		if s := read(t, res.Body, nil); !s.whole() {
			t.Errorf("the client saw %q", s.kinds)
		}
	})
}

// A block that only says when to come back is taken for an event by some readers. So it comes with the first event, and
// not with a comment.
func TestRetryComesWithAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		res := do(t, c, sayStream)
		defer res.Body.Close()
		time.Sleep(time.Second)
		quiet := do(t, c, request{method: "GET", path: "/sessions/s/events?after=3"})
		defer quiet.Body.Close()
		time.Sleep(time.Second)
		close(w.hold)
		for _, body := range []io.Reader{res.Body, quiet.Body} {
			doc, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			for block := range strings.SplitSeq(string(doc), "\n\n") {
				if strings.Contains(block, "retry: ") && !strings.Contains(block, "\ndata: ") {
					t.Errorf("a block is %q", block)
				}
			}
			if n := strings.Count(string(doc), "retry: 1000\n"); n != 1 {
				t.Errorf("a reader is told %d times when to come back", n)
			}
		}
	})
}

// A reader that waits keeps its connection while no turn is in flight, and sees the next one from its first event on.
// It does so in another process too, without a last event, and after the stream was forgotten.
func TestEventsWait(t *testing.T) {
	for _, before := range []string{"nothing", "a turn", "a turn that is forgotten"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			here := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
			there := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
			wait := request{method: "GET", path: "/sessions/s/events?wait=1"}
			if before != "nothing" {
				q := says("say a")
				q.key = "before"
				if status, doc := all(t, here, q); status != 200 {
					t.Fatalf("%d %s", status, doc)
				}
				time.Sleep(time.Second)
				wait.header = map[string]string{"Last-Event-ID": "6"}
			}
			began := time.Now()
			res := do(t, there, wait)
			defer res.Body.Close()
			if took := time.Since(began); res.StatusCode != 200 || took > time.Second {
				t.Fatalf("%s: %d after %v", before, res.StatusCode, took)
			}
			head := wait
			head.method = "HEAD"
			if status, _ := all(t, there, head); status != 200 {
				t.Errorf("%s: HEAD is %d", before, status)
			}
			saw := make(chan shown)
			go func() { saw <- read(t, res.Body, nil) }()
			time.Sleep(time.Hour)
			if before == "a turn that is forgotten" {
				if err := w.events.Delete(t.Context(), stream.Key{Orchestrator: "bot", Session: "s"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			close(w.hold)
			q := sayStream
			q.header = nil
			if status, doc := all(t, here, q); status != 200 {
				t.Errorf("%d %s", status, doc)
			}
			if s := <-saw; !s.whole() {
				t.Errorf("%s: the reader saw %q", before, s.kinds)
			}
		})
	}
}

// Readers that wait end with the process, and count as readers. Another value of wait is refused.
func TestEventsWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		o.MaxReaders = 1
		bot := w.bot(t, w.definition(), nil)
		c := served(t, turnhttp.Handler(bot, o))
		for value, want := range map[string]int{"0": 204, "": 204, "2": 400, "true": 400} {
			q := request{method: "GET", path: "/sessions/s/events?wait=" + value}
			if status, _ := all(t, c, q); status != want {
				t.Errorf("wait=%s is %d, want %d", value, status, want)
			}
		}
		wait := request{method: "GET", path: "/sessions/s/events?wait=1"}
		res := do(t, c, wait)
		defer res.Body.Close()
		if status, _ := all(t, c, wait); status != 503 {
			t.Errorf("a reader more is %d", status)
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := bot.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if s := read(t, res.Body, nil); len(s.kinds) > 0 || time.Since(began) > time.Second {
			t.Errorf("the reader stayed %v, and saw %q", time.Since(began), s.kinds)
		}
	})
}
