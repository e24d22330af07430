package turnhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// memory returns how many bytes of heap and stacks are in use.
func memory() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A thousand readers of a turn that says nothing cost little, slow nothing, and leave nothing behind.
func TestReaders(t *testing.T) {
	const readers, most, slack = 1000, 40 << 10, 1 << 20
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	addr := onLoopback(t, h)
	turn := make(chan int)
	go func() {
		turn <- with("turn", func(q *request) { q.body = `{"message":"slow one two"}` }).to(t.Context(), h).Code
	}()
	w.hold <- struct{}{}
	// The runtime keeps what it needs to run so many goroutines. That is not a reader's.
	closeAll(opened(t, addr, readers))
	var before int64
	wait(t, func() bool {
		last := before
		before = memory()
		return last > 0 && before > last*99/100
	})
	conns := opened(t, addr, readers)
	each := (memory() - before) / readers
	t.Logf("%d bytes for each reader", each)
	if each > most && !raced {
		t.Errorf("a reader costs %d bytes, want %d at most", each, most)
	}
	began := time.Now()
	w.hold <- struct{}{}
	if status := <-turn; status != 200 {
		t.Errorf("the turn is %d", status)
	}
	t.Logf("beside them the turn took %v", time.Since(began))
	for _, conn := range conns { // they see the end
		if doc, err := io.ReadAll(conn); err != nil || !strings.Contains(string(doc), "event: reply") {
			t.Fatalf("a reader saw %q: %v", doc, err)
		}
	}
	closeAll(conns)
	// A process of 4 MB moves by more than a tenth of itself. The readers took 33 MB.
	wait(t, func() bool { return memory() <= max(before+before/10, before+slack) })
}

// onLoopback serves a handler over TCP, until the test is over.
func onLoopback(t *testing.T, h http.Handler) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)} //nolint:gosec // a test
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr()
}

func opened(t *testing.T, addr net.Addr, n int) (conns []net.Conn) {
	t.Helper()
	for range n {
		conns = append(conns, reader(t, addr))
	}
	return conns
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// reader opens a reader, and returns its connection after the first event. It has no buffers.
func reader(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprint(conn, "GET /sessions/s/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(conn, 64)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "event: token") {
			return conn
		}
	}
}

// wait waits until ok, and fails after a while.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-late:
			t.Fatal("it takes too long")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A hungStream is a stream store that does not answer.
type hungStream struct{ stream.Store }

func (hungStream) Last(ctx context.Context, _ stream.Key) (int64, string, stream.Status, error) {
	<-ctx.Done()
	return 0, "", "", context.Cause(ctx)
}

func (hungStream) Append(
	ctx context.Context, _ stream.Key, _ string, _ int64, _ stream.Status, _ []json.RawMessage,
) (int64, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// A turn with events begins soon although the stream store hangs, and its client sees all of it.
func TestHungStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.events = hungStream{w.events}
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
		close(w.hold)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		res, err := c.Do(sayStream.make(ctx, base))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if s := read(t, res.Body, nil); !s.whole() {
			t.Errorf("the client sees %q", s.kinds)
		}
	})
}

// A slowAppend is a stream store that takes its time.
type slowAppend struct{ stream.Store }

func (s slowAppend) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, st stream.Status, data []json.RawMessage,
) (int64, error) {
	select {
	case <-time.After(700 * time.Millisecond):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return s.Store.Append(ctx, k, run, epoch, st, data)
}

// A request that is repeated to another process shows the last events too, although they are stored after the end of
// the turn.
func TestRepeatSeesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.events = slowAppend{w.events}
		readers := make(chan shown, 2)
		for range 2 {
			c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
			res := do(t, c, sayStream)
			go func() {
				defer res.Body.Close()
				readers <- read(t, res.Body, nil)
			}()
			time.Sleep(time.Second)
		}
		close(w.hold)
		for range 2 {
			if s := <-readers; !s.whole() {
				t.Errorf("a reader sees %q", s.kinds)
			}
		}
	})
}

// A client repeats an old key while a later turn waits for its next owner. The readers of the later turn see that turn
// only.
func TestRepeatOfOldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		o.TurnTimeout = 3 * time.Second
		c := served(t, turnhttp.Handler(w.bot(t, w.definition(), nil), o))
		first := request{method: "POST", path: "/sessions/s/turns", key: "k1", body: `{"message":"say first"}`}
		second := request{method: "POST", path: "/sessions/s/turns", key: "k2", body: `{"message":"slow second"}`}
		if status, doc := all(t, c, first); status != 200 {
			t.Fatal(status, string(doc))
		}
		if status, doc := all(t, c, second); status != 504 { // it is left in flight
			t.Fatal(status, string(doc))
		}
		reader := make(chan shown)
		go func() {
			res := do(t, c, getEvents)
			defer res.Body.Close()
			reader <- read(t, res.Body, nil)
		}()
		time.Sleep(time.Second)
		if status, doc := all(t, c, first); status != 200 {
			t.Fatal(status, string(doc))
		}
		time.Sleep(time.Second)
		close(w.hold)
		if status, doc := all(t, c, second); status != 200 {
			t.Fatal(status, string(doc))
		}
		if s := <-reader; s.reply == nil || s.reply.Reply != "second" || s.text != "second " {
			t.Errorf("the reader saw %q, and the reply %+v", s.kinds, s.reply)
		}
	})
}
