package turnhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// The roles of processes that share a database. A front accepts inputs, and has no watch. A worker has one.
const (
	roleFront  = "front"
	roleWorker = "worker"
)

// serving is the life of such a process. It says where it listens.
func serving(watches bool) testenv.Role {
	return func(where string, out io.Writer) error {
		ctx := context.Background()
		pool, err := pgxpool.New(ctx, where)
		if err != nil {
			return err
		}
		db := postgres.New(pool, nil)
		quiet := slog.New(slog.DiscardHandler)
		bot, err := orchestrator.New(orchestrator.Definition[State]{
			Name: "bot", Intents: orchestrator.Intents[State]{"do": {
				Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
					t.State.Text = t.Input.Text
					_, err := pool.Exec(ctx, `INSERT INTO ran (input) VALUES ($1)`, t.Input.Text)
					return err
				},
			}},
		}, db.Checkpoints(), &orchestrator.Options{Snapshots: db.Snapshots(), Inbox: db.Inbox(), Logger: quiet})
		if err != nil {
			return err
		}
		s := serve.Service{Logger: quiet, Handler: turnhttp.Handler(bot, turnhttp.Options[State]{
			Authorize: turnhttp.Anyone,
			Reply:     func(res *orchestrator.Result[State]) any { return res.State.Text },
		})}
		if watches {
			s.Bots = []serve.Bot{bot}
		}
		if s.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		fmt.Fprintln(out, s.Listener.Addr())
		return serve.Run(ctx, s)
	}
}

// A site is a process that serves clients.
type site struct {
	testenv.Child
	url string
}

func startSite(t *testing.T, role, where string) site {
	t.Helper()
	c := testenv.StartRole(t, role, where)
	if !c.Out.Scan() {
		t.Fatal("the process ended without a word")
	}
	s := site{c, "http://" + c.Out.Text()}
	for res := s.send(t, "GET", "/readyz", "", ""); res.code != http.StatusOK; {
		time.Sleep(10 * time.Millisecond) // it polls until the process is ready
		res = s.send(t, "GET", "/readyz", "", "")
	}
	return s
}

// kill kills the process, and waits until it is gone.
func (s site) kill(t *testing.T) {
	t.Helper()
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Cmd.Wait()
}

type response struct {
	code     int
	location string
	body     []byte
}

// send sends a request. With a key it says something for later.
func (s site) send(t *testing.T, method, path, key, body string) (got response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Prefer", "respond-async")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	got.code, got.location = res.StatusCode, res.Header.Get("Location")
	if at, err := res.Request.URL.Parse(got.location); err == nil && got.location != "" {
		got.location = at.EscapedPath()
	}
	return got
}

// A process accepts inputs, and is killed with SIGKILL after it has said so. Processes that come later run each input
// once, in the order of its session, and tell so where the first one has said. A client that repeats its
// request in between changes nothing.
func TestLaterKilled(t *testing.T) {
	t.Parallel()
	where := testenv.PostgresURL(t)
	pool := pgtest.PoolOn(t, where)
	pgtest.Exec(t, pool, `CREATE TABLE ran (number bigserial, input text)`)
	const sessions, inputs = 4, 3
	locations := make(map[string]string) // by input
	var workers []site
	for i := range inputs {
		if i == inputs-1 { // what was accepted before is found by their drains, and the rest by their watches
			if n := pgtest.Value[int](t, pool, `SELECT count(*) FROM ran`); n != 0 {
				t.Errorf("%d have run before any worker", n)
			}
			workers = append(workers, startSite(t, roleWorker, where), startSite(t, roleWorker, where))
		}
		front := startSite(t, roleFront, where)
		for s := range sessions {
			for j := range i + 1 { // those before are repeats
				input := fmt.Sprint(s, " ", j)
				path := fmt.Sprintf("/sessions/%d/turns", s)
				res := front.send(t, "POST", path, fmt.Sprint("k", j), `{"message":"`+input+`"}`)
				if old := locations[input]; res.code != 202 || old != "" && old != res.location {
					t.Fatalf("%s: %d %s at %s, before %s", input, res.code, res.body, res.location, old)
				}
				locations[input] = res.location
			}
		}
		front.kill(t)
	}
	n := 0
	for input, at := range locations {
		n++
		doc := waited(t, workers[n%2], at)
		if doc.Turn == nil || doc.Turn.Reply != input || fmt.Sprint(doc.Turn.Turn) != input[2:] {
			t.Errorf("%s has become %+v", input, doc)
		}
	}
	const twice = `SELECT count(*) FROM ran a JOIN ran b ON a.input = b.input AND a.number < b.number`
	const wrong = `SELECT count(*) FROM ran a JOIN ran b ON left(a.input, 1) = left(b.input, 1)
		AND a.input < b.input AND a.number > b.number`
	for what, sql := range map[string]string{"ran twice": twice, "ran before an earlier one": wrong} {
		if n := pgtest.Value[int](t, pool, sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	if n := pgtest.Value[int](t, pool, `SELECT count(*) FROM ran`); n != sessions*inputs {
		t.Errorf("%d have run, want %d", n, sessions*inputs)
	}
}

// An inputOf is what has become of an input.
type inputOf struct {
	Status string
	Turn   *told
}

// waited asks until an input no longer waits and no longer runs.
func waited(t *testing.T, s site, at string) (doc inputOf) {
	t.Helper()
	for {
		res := s.send(t, "GET", at, "", "")
		if err := json.Unmarshal(res.body, &doc); err != nil || res.code != http.StatusOK {
			t.Fatalf("%s is %d %s: %v", at, res.code, res.body, err)
		}
		if doc.Status != "waiting" && doc.Status != "running" {
			return doc
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s is still %s", at, doc.Status)
		}
	}
}
