package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
)

// lifelong is the job of a process whose life is serve.Run. It says where it listens, and begins to boot when it
// is told to go on. Body says what an intent does: it finishes, "lingers" for a second, or "hangs".
const lifelong = "live"

// The values of Body that only a life has.
const (
	linger = "linger" // some inputs take longer than the grace
	hang   = "hang"   // an intent ignores the end of its context
)

func (k *worker) live(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	w, err := k.Site.open(ctx)
	if err != nil {
		return err
	}
	b, err := w.bot(k.livingBody)
	if err != nil {
		return err
	}
	return serve.Run(ctx, serve.Service{
		Handler: answerTurns(b), Bots: []serve.Bot{b}, Listener: listener, Logger: quiet,
		Prepare:  func(context.Context) error { <-k.goOn; return nil },
		Close:    func() error { w.close(); return nil },
		Timeouts: serve.Timeouts{Grace: k.Grace},
	})
}

func (k *worker) livingBody(ctx context.Context, t *turn) error {
	switch {
	case k.Body == hang:
		select {}
	case k.Body == linger && strings.HasSuffix(t.Input.Text, "4"):
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// answerTurns executes the body of a request. An error that clients may repeat the request after is 503.
func answerTurns(b *bot) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			in := orchestrator.Input{RequestID: r.Header.Get("Idempotency-Key"), Text: string(text)}
			_, err = b.Execute(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), in, nil)
		}
		switch p := orchestrator.Public(err); {
		case err == nil:
		case p.Retryable:
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		default:
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})
}

// A livingProcess is a process whose life is Serve, and where it listens.
type livingProcess struct {
	*server
	t *testing.T
}

func (j job) live(t *testing.T) *livingProcess {
	t.Helper()
	j.Do = lifelong
	p := j.start(t)
	if !p.out.Scan() {
		t.Fatal("the process ended without a word")
	}
	return &livingProcess{&server{p, "http://" + p.out.Text()}, t}
}

// await waits until the process answers a GET with a status.
func (p *livingProcess) await(path string, status int) {
	p.t.Helper()
	ctx := patience(p.t)
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
		if err != nil {
			p.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == status {
				return
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			p.t.Fatalf("%s is not %d: %v", path, status, err)
		}
	}
}

func (p *livingProcess) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// Two processes serve clients, and one after the other is replaced with SIGTERM, as in a deploy. Some turns take longer
// than the grace. Each client repeats an input until it is answered. Each input that was acknowledged is in its session
// once, and each process ends without an error.
func TestSigterm(t *testing.T) {
	t.Parallel()
	places := map[string]func(*testing.T) site{"sqlite": onSQLite, "postgres": onPostgres}
	g := rolling{clients: 6, rounds: 2}
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		g = rolling{clients: 50, rounds: 20}
		places["postgres and redis"], places["redis"] = onBoth, onRedis
	}
	tests := make(map[string]func(*testing.T))
	for name, build := range places {
		tests[name] = func(t *testing.T) {
			s := build(t)
			s.Defaults, s.Conns, s.Effects = true, 8, os.DevNull
			g := g
			if s.SQLite != "" {
				// The writers of two processes poll. With fifty clients a round takes half a minute.
				g.clients = min(g.clients, 10)
			}
			g.under(t, s)
		}
	}
	together(t, tests)
}

// rolling says how many clients send inputs while how often both processes are replaced.
type rolling struct{ clients, rounds int }

// A crowd counts the inputs of each client that were answered.
type crowd []atomic.Int64

// advance waits until each client has got two more answers. So no turn is cut short twice in a row, and parked.
func (c crowd) advance(t *testing.T) {
	t.Helper()
	ctx := patience(t)
	want := make([]int64, len(c))
	for i := range c {
		want[i] = c[i].Load() + 2
	}
	for i := range c {
		for c[i].Load() < want[i] {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("client %d gets no answer", i)
			}
		}
	}
}

func (g rolling) under(t *testing.T, s site) {
	boot := func() *livingProcess {
		p := job{Site: s, Body: linger, Grace: 300 * time.Millisecond}.live(t)
		p.goOn()
		p.await("/readyz", http.StatusOK)
		return p
	}
	var urls [2]atomic.Pointer[string]
	old := [2]*livingProcess{boot(), boot()}
	for i, p := range old {
		urls[i].Store(&p.url)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sent, answered := make([][]string, g.clients), make(crowd, g.clients)
	var repeats atomic.Int64
	var clients sync.WaitGroup
	for i := range g.clients {
		clients.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				text := fmt.Sprint("input ", n)
				repeats.Add(g.send(t, &urls, i+n, fmt.Sprint("c", i), text))
				sent[i] = append(sent[i], text)
				answered[i].Add(1)
			}
		})
	}
	var longest time.Duration
	for n := range 2 * g.rounds {
		next := boot()
		answered.advance(t)
		urls[n%2].Store(&next.url)
		began := time.Now()
		old[n%2].terminate()
		old[n%2].exit()
		longest, old[n%2] = max(longest, time.Since(began)), next
	}
	stop()
	clients.Wait()

	reader, inputs := openSite(t, s).start(t, nil), 0
	for i := range g.clients {
		wantSaid(t, reader, fmt.Sprint("c", i), sent[i])
		inputs += len(sent[i])
	}
	t.Logf("%d inputs, %d of them sent again; the longest end took %v", inputs, repeats.Load(), longest)
}

// send sends an input until it is answered, and returns how often it was sent again.
func (g rolling) send(t *testing.T, urls *[2]atomic.Pointer[string], first int, session, text string) (repeats int64) {
	for try := first; t.Context().Err() == nil; try++ {
		if repeats > 0 {
			<-time.After(5 * time.Millisecond)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, *urls[try%2].Load()+"/"+session,
			strings.NewReader(text))
		if err != nil {
			t.Error(err)
			break
		}
		r.Header.Set("Idempotency-Key", text)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			repeats++
			continue // it has ended
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err == nil && resp.StatusCode == http.StatusOK:
			return repeats
		case err == nil && resp.StatusCode != http.StatusServiceUnavailable:
			t.Errorf("%s: %s: %d %s", session, text, resp.StatusCode, body)
			return repeats
		}
		repeats++
	}
	return repeats
}

// A second SIGTERM ends a process at once, although a turn goes on and the grace has not passed.
func TestSecondSigterm(t *testing.T) {
	t.Parallel()
	s := onSQLite(t)
	s.Effects = filepath.Join(t.TempDir(), "effects")
	p := job{Site: s, Body: hang, Grace: time.Hour}.live(t)
	p.await("/healthz", http.StatusOK)
	p.await("/readyz", http.StatusServiceUnavailable)
	p.goOn()
	p.await("/readyz", http.StatusOK)
	ctx := patience(t)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/s", strings.NewReader("hello"))
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	for {
		if notes, err := os.ReadFile(s.Effects); err == nil && len(notes) > 0 {
			break // the turn is in its intent
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the turn has not begun")
		}
	}
	p.terminate()
	p.await("/readyz", http.StatusServiceUnavailable)
	began := time.Now()
	p.terminate()
	err := p.cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Fatalf("the process ended with %v", err)
	}
	t.Logf("it took %v", time.Since(began))
}

// Two processes with a Locker boot at once over interrupted runs: some were handed off, and others have a dead owner,
// whose lock and lease are left. Each run is finished once, and each input that comes meanwhile is answered after it.
func TestDrainUnderLock(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for locker, build := range map[string]func(*testing.T) site{"redis": onBoth, "postgres": onPostgres} {
		tests[locker] = func(t *testing.T) {
			s := build(t)
			s.Locker, s.Effects, s.Conns = locker, filepath.Join(t.TempDir(), "effects"), 4
			s.Defaults = true
			drainUnderLock(t, s)
		}
	}
	together(t, tests)
}

func drainUnderLock(t *testing.T, s site) {
	handedOff, orphaned := names("handed off", 12), names("orphaned", 4)
	w := openSite(t, s)
	for _, sessions := range [][]string{handedOff, orphaned} {
		p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "hello"}.start(t)
		p.hear(inFlight)
		if sessions[0] == orphaned[0] {
			w.wantBeating(t, orphaned...)
			p.kill()
			break
		}
		p.goOn()
		p.hear(left)
		p.exit()
	}
	both := [2]*livingProcess{
		job{Site: s, Body: finish}.live(t),
		job{Site: s, Body: finish}.live(t),
	}
	for _, p := range both {
		p.await("/readyz", http.StatusServiceUnavailable)
	}
	for _, p := range both {
		p.goOn()
	}
	var urls [2]atomic.Pointer[string]
	for i, p := range both {
		urls[i].Store(&p.url)
	}
	var clients sync.WaitGroup
	sessions := slices.Concat(handedOff, orphaned)
	for i, session := range sessions {
		clients.Go(func() { rolling{}.send(t, &urls, i, session, "again") })
	}
	clients.Wait()
	for _, p := range both {
		p.await("/readyz", http.StatusOK)
	}
	for _, session := range sessions {
		w.wantStarts(t, session, "hello", 2) // in the process that died, and in one of both
		w.wantStarts(t, session, "again", 1)
		wantTurns(t, w.start(t, nil), session, "hello", "again")
	}
	wantRuns(t, w.start(t, nil), 0)
	for _, p := range both {
		p.terminate()
	}
	for _, p := range both {
		p.exit()
	}
}
