package bootdrain_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// serve answers a request for each input until the process is killed, and watches. It says where.
func (k *worker) serve(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = bootdrain.Watch(ctx, k.bot, &bootdrain.Options{Logger: quiet}) }()
	fmt.Println(l.Addr())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(rw http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err == nil {
				in := orchestrator.Input{RequestID: r.Header.Get("Idempotency-Key"), Text: string(text)}
				_, err = k.bot.Execute(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), in, nil)
			}
			if err != nil {
				http.Error(rw, err.Error(), http.StatusServiceUnavailable)
			}
		})}
	return server.Serve(l)
}

// A siege is two processes that serve clients, of which one is killed every now and then.
type siege struct {
	clients int
	pause   time.Duration // of a client between two inputs
	every   time.Duration
	kills   int
}

// Two processes serve clients with default options, and one of them is killed again and again, at once replaced. Each
// client repeats an input until it is answered. No input is lost or doubled.
func TestKillAgainAndAgain(t *testing.T) {
	t.Parallel()
	g := siege{clients: 4, pause: 5 * time.Millisecond, every: 2 * time.Second, kills: 2}
	places := map[string]func(*testing.T) site{"postgres": onPostgres}
	if soak() {
		g = siege{clients: 50, every: 10 * time.Second, kills: 6}
		places["postgres and redis"], places["redis"], places["sqlite"] = onBoth, onRedis, onSQLite
	}
	for name, build := range places {
		t.Run(name, func(t *testing.T) {
			s := build(t)
			s.Defaults, s.Conns, s.Effects = true, 16, os.DevNull
			g.lay(t, s)
		})
	}
}

func (g siege) lay(t *testing.T, s site) {
	var instances [2]atomic.Pointer[server]
	for i := range instances {
		instances[i].Store(startServer(t, s))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sent := make([][]string, g.clients)
	waits := make([][]time.Duration, g.clients)
	var clients sync.WaitGroup
	for i := range g.clients {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				text, began := fmt.Sprintf("input %d", n), time.Now()
				deliver(t, &instances, n+i, fmt.Sprint("c", i), text)
				sent[i], waits[i] = append(sent[i], text), append(waits[i], time.Since(began))
				<-time.After(g.pause)
			}
		})
	}
	for kill := range g.kills {
		<-time.After(g.every)
		victim := &instances[kill%2]
		victim.Load().kill()
		victim.Store(startServer(t, s))
	}
	stop()
	clients.Wait()

	reader := openSite(t, s).start(t, nil)
	var all []time.Duration
	for i := range g.clients {
		wantSaid(t, reader, fmt.Sprint("c", i), sent[i])
		all = append(all, waits[i]...)
	}
	slices.Sort(all)
	p50, p99, longest := all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	t.Logf("%d inputs, %d kills: p50 %v, p99 %v, longest %v", len(all), g.kills, p50, p99, longest)
	if soak() && p99 > 8*time.Second {
		t.Errorf("p99 is %v, want 8 s", p99)
	}
}

// wantSaid checks what the newest state of a session says: each input once, also if the oldest turns are not kept.
func wantSaid(t *testing.T, b *bot, session string, texts []string) {
	t.Helper()
	var said []string
	for res, err := range b.Turns(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		said = res.State.Said
		break
	}
	if !slices.Equal(said, texts) {
		t.Errorf("the client of %s sent %d inputs, and its session has %d", session, len(texts), len(said))
	}
}

// A server is a process that serves, and where.
type server struct {
	*child
	url string
}

func startServer(t *testing.T, s site) *server {
	p := job{Do: besieged, Site: s, Body: finish}.start(t)
	if !p.out.Scan() {
		t.Fatal("the process ended without a word")
	}
	return &server{p, "http://" + p.out.Text()}
}

// deliver sends an input, to one process or the other, until it is answered.
func deliver(t *testing.T, instances *[2]atomic.Pointer[server], first int, session, text string) {
	for try := first; ; try++ {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			instances[try%2].Load().url+"/"+session, strings.NewReader(text))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Idempotency-Key", text)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			if t.Context().Err() != nil {
				return
			}
			continue // killed
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK && err == nil {
			return
		}
		if err == nil {
			t.Errorf("%s: %s: %s", session, text, body)
		}
	}
}
