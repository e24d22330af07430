package serve_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("SERVE_TEST_ADDR"); addr != "" {
		if err := serveProcess(addr); err != nil {
			panic(err)
		}
		return
	}
	leaktest.Main(m)
}

// A fakeBot is a Bot whose sessions take a while to recover.
type fakeBot struct {
	sessions []string
	recovers func(ctx context.Context, session string) (string, error)
	shutdown func(context.Context) error
	*story
}

func (b *fakeBot) in(s *story) { b.story = s }

func (b *fakeBot) Name() string { return "fake" }

func (b *fakeBot) Recoverable(context.Context, bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, session := range b.sessions {
			if !yield(session, nil) {
				return
			}
		}
	}
}

func (b *fakeBot) Recover(ctx context.Context, session string) (string, error) {
	b.tell("recover " + session)
	return b.recovers(ctx, session)
}

func (b *fakeBot) Sweep(context.Context, int) (int, error) {
	b.tell("sweep")
	return 0, nil
}

func (b *fakeBot) ObserveBacklog() (stop func() error, err error) {
	b.tell("observe")
	return func() error { b.tell("observe no more"); return nil }, nil
}

func (b *fakeBot) Shutdown(ctx context.Context) error {
	b.tell("shutdown")
	if b.shutdown == nil {
		return nil
	}
	return b.shutdown(ctx)
}

// A story has the events of a test, in order.
type story struct {
	mu    sync.Mutex
	lines []string
}

func (s *story) tell(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *story) want(t *testing.T, lines ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.lines, lines) {
		t.Errorf("got %q, want %q", s.lines, lines)
	}
}

// A trial is a service under test, with fake time and without a network.
type trial struct {
	t    *testing.T
	pipe *bubble.Pipe
	log  bytes.Buffer // to be read after the service has ended
	end  context.CancelCauseFunc
	done chan error
	*story
}

// errOver ends a trial.
var errOver = errors.New("the test is over")

// try starts the service, without waiting for anything.
func try(t *testing.T, s serve.Service) *trial {
	t.Helper()
	r := &trial{t: t, pipe: bubble.NewPipe(), done: make(chan error, 1), story: new(story)}
	switch at := s.Listener.(type) {
	case nil:
		s.Listener = r.pipe
	case listensAt:
		at.Listener = r.pipe
		s.Listener = at
	}
	for _, b := range s.Bots {
		b.(interface{ in(s *story) }).in(r.story)
	}
	inner := s.Close
	s.Close = func() error {
		r.tell("close")
		if inner == nil {
			return nil
		}
		return inner()
	}
	s.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	ctx, end := context.WithCancelCause(t.Context())
	r.end = end
	go func() { r.done <- serve.Run(ctx, s) }()
	synctest.Wait()
	return r
}

// A listensAt is the pipe of a trial under another address.
type listensAt struct {
	net.Listener
	addr net.Addr
}

func (l listensAt) Addr() net.Addr { return l.addr }

// notOpen is what the gate says while it is shut.
const notOpen = `{"type":"/problems/unavailable","title":"The service is not available now.","status":503,` +
	`"retryable":true}` + "\n"

// get returns the status of a GET; 0 if the request failed.
func (r *trial) get(path string) int {
	r.t.Helper()
	resp, err := r.pipe.Client().Get("http://service" + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusServiceUnavailable &&
		(resp.Header.Get("Retry-After") != "1" || string(body) != notOpen) {
		r.t.Errorf("%s: 503 with %v and %s", path, resp.Header, body)
	}
	return resp.StatusCode
}

func (r *trial) wantGet(path string, status int) {
	r.t.Helper()
	if got := r.get(path); got != status {
		r.t.Errorf("GET %s: got %d, want %d", path, got, status)
	}
}

// wantShut checks that the service is alive, and lets no request in.
func (r *trial) wantShut() {
	r.t.Helper()
	r.wantGet("/healthz", http.StatusOK)
	r.wantGet("/readyz", http.StatusServiceUnavailable)
	r.wantGet("/hello", http.StatusServiceUnavailable)
}

func (r *trial) wantOpen() {
	r.t.Helper()
	r.wantGet("/healthz", http.StatusOK)
	r.wantGet("/readyz", http.StatusOK)
	r.wantGet("/hello", http.StatusTeapot)
}

// stop ends the service, and returns its error.
func (r *trial) stop() error {
	r.end(errOver)
	return <-r.done
}

var teapot = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

// inBubble runs f with fake time. The runtime's goroutines for signals must begin outside.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	signal.Stop(c)
	synctest.Test(t, f)
}

// The gate is shut while the service prepares and drains, and each phase begins when the one before has ended.
func TestOpensWhenDrained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		prepared, drained := make(chan struct{}), make(chan struct{})
		bot := &fakeBot{sessions: []string{"s"}}
		bot.recovers = func(context.Context, string) (string, error) {
			<-drained
			bot.sessions = nil
			return "settled", nil
		}
		var r *trial
		r = try(t, serve.Service{
			Handler: teapot, Bots: []serve.Bot{bot},
			Prepare: func(context.Context) error { <-prepared; return nil },
			Background: []func(context.Context) error{func(ctx context.Context) error {
				r.tell("background")
				<-ctx.Done()
				r.tell("background ends")
				return ctx.Err()
			}},
		})
		r.wantShut()
		r.want(t)
		close(prepared)
		synctest.Wait()
		r.wantShut()
		r.want(t, "observe", "recover s")
		close(drained)
		synctest.Wait()
		r.wantOpen()
		r.want(t, "observe", "recover s", "background")
		time.Sleep(3 * time.Minute)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		swept := len(r.lines)
		r.lines = slices.DeleteFunc(r.lines, func(line string) bool { return line == "sweep" })
		if swept -= len(r.lines); swept == 0 {
			t.Error("the watch has not swept")
		}
		slices.Sort(r.lines[3:5]) // the background function ends while the bot shuts down
		r.want(t, "observe", "recover s", "background", "background ends", "shutdown", "observe no more", "close")
		r.wantGet("/healthz", 0)
		for _, line := range []string{
			"msg=listening addr=pipe", "msg=drained orchestrator=fake runs=1", "msg=serving addr=pipe",
			`msg="shutting down" grace_ms=20000 err="the test is over"`,
		} {
			if !strings.Contains(r.log.String(), line) {
				t.Errorf("the log lacks %q: %s", line, r.log.String())
			}
		}
	})
}

// A gate that is shut closes the connection, so that the client finds another process.
func TestGateCloses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := try(t, serve.Service{Handler: teapot, Prepare: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		keep := &http.Client{Transport: &http.Transport{DialContext: r.pipe.Dial}} // it would keep the connection
		resp, err := keep.Get("http://service/hello")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if !resp.Close || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d, and the connection stays: %v", resp.StatusCode, resp.Header)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Each database is swept once a minute, however many bots use it. What comes due in a bot is done for each of them.
func TestSweeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		swept := new(story)
		said := func(what string) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) { swept.tell(what); return 0, nil }
		}
		r := try(t, serve.Service{
			Handler: teapot,
			Bots: []serve.Bot{ // four, so that what each of them does comes too often for one
				new(fakeBot), &expiring{new(fakeBot)}, &expiring{new(fakeBot)}, &expiring{new(fakeBot)},
			},
			Sweeps: []func(context.Context, int) (int, error){said("database 1"), said("database 2")},
		})
		time.Sleep(3*time.Minute + time.Second) // a pause of 30 to 90 seconds: 2 to 6 in three minutes
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		times := make(map[string]int)
		for _, line := range slices.Concat(r.lines, swept.lines) {
			times[line]++
		}
		for line, bots := range map[string]int{"sweep": 0, "expire": 3, "database 1": 1, "database 2": 1} {
			if n := times[line]; n < 2*bots || n > 6*bots {
				t.Errorf("%s: %d times in three minutes", line, n)
			}
		}
	})
}

// An expiring is a bot in whose sessions something comes due.
type expiring struct{ *fakeBot }

func (b *expiring) Expire(context.Context, int) (int, error) {
	b.tell("expire")
	return 0, nil
}

// If the drain takes too long, the service serves while the drain goes on, and says so.
func TestDrainTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var ended error
		bot := &fakeBot{sessions: []string{"s"}}
		bot.recovers = func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			ended = context.Cause(ctx)
			return "", ctx.Err()
		}
		r := try(t, serve.Service{Handler: teapot, Bots: []serve.Bot{bot}})
		time.Sleep(29 * time.Second)
		r.wantShut()
		time.Sleep(time.Second)
		synctest.Wait()
		r.wantOpen()
		if ended != nil {
			t.Errorf("the drain was ended: %v", ended)
		}
		if err := r.stop(); err != nil || !errors.Is(ended, errOver) {
			t.Errorf("%v; the drain ended with %v", err, ended)
		}
		const line = `level=WARN msg="serving before all runs are drained: the drain goes on" timeout_ms=30000`
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log lacks %q: %s", line, r.log.String())
		}
	})
}

// A database that is away is waited for. Another error ends the service at once, and so does the end of patience.
func TestPrepare(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name  string
		err   error
		heals time.Duration // when Prepare succeeds
		took  time.Duration // of a service that fails: at most
	}{
		{"heals", refused, 5 * time.Second, 0},
		{"starting", sqlState("57P03"), time.Second, 0},
		{"down", refused, time.Hour, 10 * time.Second},
		{"denied", sqlState("28P01"), time.Hour, 0},
		{"read-only", &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				began := time.Now()
				r := try(t, serve.Service{Handler: teapot, Prepare: func(context.Context) error {
					if time.Since(began) >= c.heals {
						return nil
					}
					return c.err
				}})
				if c.heals < time.Hour {
					r.wantShut()
					time.Sleep(c.heals + 2*time.Second)
					r.wantOpen()
					if err := r.stop(); err != nil {
						t.Error(err)
					}
					return
				}
				err := <-r.done
				if took := time.Since(began); !errors.Is(err, c.err) || took > c.took || took < c.took/2 {
					t.Errorf("after %v: %v", took, err)
				}
				r.want(t, "close")
			})
		})
	}
}

type sqlState string

func (s sqlState) Error() string    { return "state " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

// A service that is told to end while it boots does so, without an error.
func TestEndsWhileItBoots(t *testing.T) {
	for _, phase := range []string{"prepare", "drain"} {
		t.Run(phase, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				s := serve.Service{Handler: teapot, Prepare: wait}
				if phase == "drain" {
					s.Prepare = nil
					recovers := func(ctx context.Context, _ string) (string, error) { return "", wait(ctx) }
					s.Bots = []serve.Bot{&fakeBot{sessions: []string{"s"}, recovers: recovers}}
				}
				r := try(t, s)
				r.wantShut()
				if err := r.stop(); err != nil {
					t.Error(err)
				}
				if r.lines[len(r.lines)-1] != "close" {
					t.Errorf("%q", r.lines)
				}
			})
		})
	}
}

// Readers of events, and handlers that ignore everything, do not hold the end for ever. A request that ends by itself
// is let finish.
func TestCutsRequests(t *testing.T) {
	for _, c := range []struct {
		name, path string
		took       time.Duration
		cause      error
	}{
		{"ends", "/soon", 500 * time.Millisecond, nil},
		{"reads", "/events", time.Second, orchestrator.ErrShuttingDown},
		{"hangs", "/hang", 6 * time.Second, orchestrator.ErrShuttingDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var cause error
				begun, free := make(chan struct{}), make(chan struct{})
				mux := http.NewServeMux()
				mux.HandleFunc("/soon", func(w http.ResponseWriter, _ *http.Request) {
					close(begun)
					time.Sleep(500 * time.Millisecond)
					_, _ = io.WriteString(w, "the answer")
				})
				mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).Flush()
					close(begun)
					<-r.Context().Done()
					cause = context.Cause(r.Context())
				})
				mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
					close(begun)
					<-free
					cause = context.Cause(r.Context())
				})
				r := try(t, serve.Service{Handler: mux})
				answer := make(chan string, 1)
				go func() {
					resp, err := r.pipe.Client().Get("http://service" + c.path)
					if err != nil {
						answer <- err.Error()
						return
					}
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					answer <- string(body)
				}()
				<-begun
				began := time.Now()
				r.end(errOver)
				err := <-r.done
				took := time.Since(began)
				close(free)
				if got := <-answer; c.cause == nil && got != "the answer" {
					t.Errorf("the client got %q", got)
				}
				synctest.Wait()
				if err != nil || took < c.took || took > c.took+time.Second || !errors.Is(cause, c.cause) {
					t.Errorf("after %v: %v, cause %v", took, err, cause)
				}
			})
		})
	}
}

// A turn may go on for the grace, while no other request is let in.
func TestGrace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bot := &fakeBot{shutdown: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		r := try(t, serve.Service{
			Handler: teapot, Bots: []serve.Bot{bot}, Timeouts: serve.Timeouts{Grace: 7 * time.Second},
		})
		began := time.Now()
		r.end(errOver)
		synctest.Wait()
		r.wantShut()
		if err := <-r.done; err != nil || time.Since(began) != 7*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Background functions may end what they do for as long as turns may go on. The stores are closed after that.
func TestGraceOfBackground(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var r *trial
		r = try(t, serve.Service{Handler: teapot, Background: []func(context.Context) error{
			func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(19 * time.Second)
				r.tell("background ends")
				return nil
			},
		}})
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		r.want(t, "background ends", "close")
	})
}

// A bot may call the next one as a Tool. So the next one takes turns until the first has ended its own, or the grace
// has passed.
func TestShutsDownInOrder(t *testing.T) {
	for _, c := range []struct{ takes, next time.Duration }{
		{3 * time.Second, 3 * time.Second}, {time.Minute, 20 * time.Second},
	} {
		inBubble(t, func(t *testing.T) {
			var next time.Duration
			began := time.Now()
			r := try(t, serve.Service{Handler: teapot, Bots: []serve.Bot{
				&fakeBot{shutdown: func(context.Context) error { time.Sleep(c.takes); return nil }},
				&fakeBot{shutdown: func(context.Context) error { next = time.Since(began); return nil }},
			}})
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); next != c.next || took != c.takes {
				t.Errorf("the next bot was shut down after %v, and the end took %v", next, took)
			}
		})
	}
}

// Serve returns what failed, the first failure first, and always closes the stores.
func TestFails(t *testing.T) {
	errFirst, errClose, errBot := errors.New("first"), errors.New("not closed"), errors.New("not ended")
	closing := func() error { return errClose }
	t.Run("background", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			r := try(t, serve.Service{
				Handler: teapot, Close: closing,
				Bots: []serve.Bot{&fakeBot{shutdown: func(context.Context) error { return errBot }}},
				Background: []func(context.Context) error{
					func(context.Context) error { return nil },
					func(context.Context) error { time.Sleep(time.Minute); return errFirst },
				},
			})
			time.Sleep(59 * time.Second)
			r.wantOpen()
			const want = "serve: background function: first\n" +
				"serve: bot \"fake\": not ended\n" +
				"serve: close: not closed"
			if err := <-r.done; err == nil || err.Error() != want || !errors.Is(err, errFirst) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("listen", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = serve.Run(t.Context(), serve.Service{Addr: l.Addr().String(), Handler: teapot, Close: closing})
		if !errors.Is(err, syscall.EADDRINUSE) || !errors.Is(err, errClose) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("accept", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := bubble.NewPipe()
			r := try(t, serve.Service{Listener: p, Handler: teapot})
			p.Close()
			if err := <-r.done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
			r.want(t, "close")
		})
	})
	t.Run("work", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			free := make(chan struct{})
			r := try(t, serve.Service{Handler: teapot, Background: []func(context.Context) error{
				func(context.Context) error { <-free; return nil },
			}})
			if err := r.stop(); err == nil || err.Error() != "serve: background functions have not ended" {
				t.Errorf("got %v", err)
			}
			close(free)
		})
	})
}

// A handler that panics ends its request. The log says where, and not with which value.
func TestPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := try(t, serve.Service{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("card 4711")
		})})
		r.wantGet("/x", 0)
		r.wantGet("/readyz", http.StatusOK)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		log := r.log.String()
		if strings.Contains(log, "card 4711") || !strings.Contains(log, `msg="handler panicked" method=GET`) ||
			!strings.Contains(log, "serve_test.go") {
			t.Errorf("the log says %s", log)
		}
	})
}

func TestWithoutHandler(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Run takes a Service without a Handler")
		}
	}()
	_ = serve.Run(t.Context(), serve.Service{})
}

// A service that is told to end serves on for a while, and says that it is not ready: what stands in front of it sends
// the next requests elsewhere. Background functions go on until then. On loopback nothing stands in front.
func TestLinger(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 8080} }
	for _, c := range []struct {
		addr   net.Addr
		linger time.Duration
		want   time.Duration
	}{
		{tcp("::"), 0, 3 * time.Second},
		{tcp("10.0.0.7"), 0, 3 * time.Second},
		{tcp("127.0.0.1"), 0, 0},
		{tcp("::1"), 0, 0},
		{&net.UnixAddr{Name: "s", Net: "unix"}, 0, 0},
		{tcp("127.0.0.1"), 5 * time.Second, 5 * time.Second},
		{tcp("::"), -1, 0},
	} {
		inBubble(t, func(t *testing.T) {
			var ended time.Duration
			began := time.Now()
			r := try(t, serve.Service{
				Handler: teapot, Listener: listensAt{addr: c.addr}, Timeouts: serve.Timeouts{Linger: c.linger},
				Background: []func(context.Context) error{func(ctx context.Context) error {
					<-ctx.Done()
					ended = time.Since(began)
					return ctx.Err()
				}},
			})
			r.wantOpen()
			r.end(errOver)
			if c.want > 0 {
				time.Sleep(c.want - time.Millisecond)
				synctest.Wait()
				r.wantGet("/healthz", http.StatusOK)
				r.wantGet("/readyz", http.StatusServiceUnavailable)
				resp, err := r.pipe.Client().Get("http://service/hello")
				if err != nil || resp.StatusCode != http.StatusTeapot || !resp.Close {
					t.Errorf("a request meanwhile is %v, %v", resp, err)
				} else {
					resp.Body.Close()
				}
			}
			if err := <-r.done; err != nil || ended != c.want {
				t.Errorf("%v, Linger %v: it lingers for %v: %v", c.addr, c.linger, ended, err)
			}
		})
	}
}

// A service that has not come to serve does not linger.
func TestNoLingerAtBoot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		r := try(t, serve.Service{
			Handler: teapot, Prepare: wait, Listener: listensAt{addr: &net.TCPAddr{IP: net.IPv4zero}},
		})
		if err := r.stop(); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
