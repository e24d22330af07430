package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// remembers makes worlds note the calls of steps in the memory of the test, in place of the database: it may be away.
// What commits with the journal stays in the database.
func remembers(worlds ...*world) {
	var mu sync.Mutex // protects all
	var all []call
	for _, w := range worlds {
		w.note = func(_ context.Context, c call) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			return nil
		}
		stored := w.calls
		w.calls = func(ctx context.Context) ([]call, error) {
			mu.Lock()
			defer mu.Unlock()
			committed, err := stored(ctx)
			return slices.Concat(all, committed), err
		}
	}
}

// chains are two engines that run chains.
func chains(t *testing.T, s site) (worlds [2]*world) {
	for i := range worlds {
		worlds[i] = s.here(t)
	}
	remembers(worlds[:]...)
	for _, w := range worlds {
		w.run(t, w.chain(1))
	}
	return worlds
}

// slowly makes chains of s take half a second, in processes that nobody takes for dead too soon.
func slowly(s site) site {
	s.DeadAfter, s.Lease = time.Minute, 0
	s.Takes = 50 * time.Millisecond
	return s
}

// A server shuts down, or crashes, and comes back, while runs go on. All runs complete. If no claim is lost with the
// server, no step is called twice.
func TestServerRestarts(t *testing.T) {
	for name, restart := range map[string]func(*testenv.Server){
		"fast":      (*testenv.Server).Restart,
		"immediate": func(s *testenv.Server) { s.Kill(); s.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t, nil)
			w := chains(t, slowly(onPostgres(t, server.URL)))[0]
			var ids []string
			for range 3 {
				ids = append(ids, w.start(t, 20)...)
				<-time.After(200 * time.Millisecond)
				restart(server)
			}
			extra := w.judgeChains(t, ids)
			t.Logf("%d calls too many", extra)
			if name == "fast" && extra > 0 || extra > 3*20 {
				t.Errorf("%d calls too many", extra)
			}
		})
	}
}

// Behind PgBouncer in transaction mode each transaction is on another connection than the one before.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	s := slowly(onPostgres(t, server.URL))
	pooler := testenv.StartPgBouncer(t, server)
	s.Where = pooler.URL + "&pool_max_conns=16&default_query_exec_mode=cache_describe"
	w := chains(t, s)[0]
	v := s.here(t)
	_, stop := v.run(t, v.verbs("verbs"), v.inner("verbs"))
	go v.signal(t.Context(), "verbs")
	if extra := w.judgeChains(t, w.start(t, 30)); extra > 0 {
		t.Errorf("%d calls too many", extra)
	}
	v.judge(t, v.goesOn(t, "verbs"), strike{}, 0)
	stop()
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// toxics are what happens between an engine and its server.
var toxics = []string{
	`{"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 0}}`,
	`{"type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 0}}`,
	`{"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 900}}`,
	`{"type": "limit_data", "stream": "downstream", "attributes": {"bytes": 900}}`,
	`{"type": "latency", "stream": "downstream", "attributes": {"latency": 30, "jitter": 30}}`,
	`{"type": "timeout", "stream": "upstream", "attributes": {"timeout": 100}}`,
	`{"type": "timeout", "stream": "downstream", "attributes": {"timeout": 100}}`,
}

// behindProxy returns the URL of a server behind a proxy.
func behindProxy(t *testing.T, url string) (*toxiproxy.Proxy, string) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port)
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(api, "db", "127.0.0.1:0", addr)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if !strings.Contains(url, addr) {
		t.Fatalf("%s is not in %s", addr, url)
	}
	return p, strings.Replace(url, addr, p.Listen, 1)
}

// The wire between an engine and its server delays and cuts, again and again. Beside it is an engine with a good one.
// Runs that each of them starts complete, also if the answer to the start was lost.
func TestBadWire(t *testing.T) {
	t.Parallel()
	s := slowly(onPostgres(t, testenv.PostgresURL(t)))
	bad := s
	var proxy *toxiproxy.Proxy
	proxy, bad.Where = behindProxy(t, s.Where)
	w, cut := s.here(t), bad.here(t)
	remembers(w, cut)
	w.run(t, w.chain(1))
	e, _ := cut.run(t, cut.chain(1))
	ids := w.start(t, 20)
	c := workflow.NewClient(e.Front())
	for i := range 3 * len(toxics) {
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxics[i%len(toxics)])); err != nil {
			t.Fatal(err)
		}
		started, err := c.Start(t.Context(), "chain", i, &workflow.StartOptions{IdempotencyKey: fmt.Sprint(i)})
		<-time.After(100 * time.Millisecond)
		proxy.Toxics.ResetToxics(t.Context())
		for tries := 0; err != nil && tries < 10; tries++ {
			started, err = c.Start(t.Context(), "chain", i, &workflow.StartOptions{IdempotencyKey: fmt.Sprint(i)})
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, started.ID)
	}
	extra := w.judgeChains(t, ids)
	t.Logf("%d calls too many of %d", extra, links*len(ids))
}

// While no standby of a synchronous server answers, writes wait, and claims do not. No engine goes on, and
// none gives up. Nothing is lost or doubled.
func TestStandbysStall(t *testing.T) {
	t.Parallel()
	server := testenv.StartReplicated(t, true, &testenv.Options{
		Settings: map[string]string{"wal_receiver_timeout": "0", "wal_sender_timeout": "0"},
	})
	s := slowly(onPostgres(t, server.URL))
	s.Where += "&pool_max_conns=50" // a transaction of a step keeps its connection while it waits
	w := chains(t, s)[0]
	ids := w.start(t, 40)
	o := w.others(t)
	server.StopSending()
	o.claim(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	verdicts, err := w.store.Write(ctx, []workflow.Entry{o.entry})
	if cancel(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the write does not wait: %v, %v", verdicts, err)
	}
	for w.called(t) == 0 {
		<-time.After(nap)
	}
	// The first steps of runs that were claimed meanwhile may come late.
	before, after := 0, -1
	for range 4 {
		before, after = after, w.called(t)
		if before == after {
			break
		}
		<-time.After(11 * time.Second) // longer than an engine waits for an answer
	}
	if before == 40*links*4/5 || before != after {
		t.Errorf("without a standby %d steps were called, and then %d", before, after)
	}
	server.ContinueSending()
	verdicts, err = w.store.Write(t.Context(), []workflow.Entry{o.entry})
	if err != nil || verdicts[0] != nil {
		t.Errorf("repeated, the write is %v, %v", verdicts, err)
	}
	if extra := w.judgeChains(t, ids); extra > 0 {
		t.Errorf("%d calls too many", extra)
	}
}

// called returns how many calls of steps there were, without those of transactions.
func (w *world) called(t *testing.T) (n int) {
	t.Helper()
	all, err := w.calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if !strings.HasSuffix(c.step, "-3") && !strings.HasSuffix(c.step, "-8") {
			n++
		}
	}
	return n
}

// others are two runs that no engine knows: one that the test owns and writes to, and one that is due.
type others struct {
	*world
	entry workflow.Entry
}

func (w *world) others(t *testing.T) others {
	t.Helper()
	fence := lock.Fence{Epoch: 1, Nonce: "n"}
	_, err := w.store.Start(t.Context(), []workflow.NewRun{
		{ID: "mine", Workflow: "other", Version: 1, Owner: "me", Fence: fence},
		{ID: "due", Workflow: "other", Version: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return others{w, workflow.Entry{Run: "mine", Fence: fence, Mail: -1, Steps: []workflow.Step{
		{Name: "s", Kind: workflow.KindStep, Outcome: workflow.Done, Output: []byte("1"), Attempts: 1},
	}}}
}

// claim claims the run that is due.
func (o others) claim(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	claimed, _, err := o.store.Claim(ctx, workflow.ClaimRequest{
		Process: "me", Nonce: "m", Limit: 1, Definitions: []workflow.Definition{{Workflow: "other", Version: 1}},
	})
	if len(claimed) != 1 || err != nil {
		t.Errorf("the claim is %+v, %v", claimed, err)
	}
}
