// Package turnhttp_test tests package turnhttp on the stores of servers.
package turnhttp_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

func TestMain(m *testing.M) {
	testenv.MainWith(m, map[string]testenv.Role{roleFront: serving(false), roleWorker: serving(true)})
}

// A State is that of a bot that says again what it hears, and asks once.
type State struct{ Text, Asks, Noise string }

// A world is the stores of the processes of a bot. open opens the stores of one process.
type world struct {
	open    func(*testing.T) (checkpoint.Store, snapshot.Store)
	limits  orchestrator.Limits
	answers inbox.Memory
	events  stream.Memory
	ran     atomic.Int64
}

// process starts a process.
func (w *world) process(t *testing.T) http.Handler {
	t.Helper()
	checkpoints, snapshots := w.open(t)
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "bot", Intents: orchestrator.Intents[State]{"do": {Run: w.do}},
	}, checkpoints, &orchestrator.Options{
		Snapshots: snapshots, Stream: &w.events, Logger: slog.New(slog.DiscardHandler),
		Limits: w.limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize: func(r *http.Request, _ string, _ turnhttp.Action) (turnhttp.Actor, error) {
			return turnhttp.Actor(r.Header.Get("Who")), nil
		},
		Reply: func(res *orchestrator.Result[State]) any { return res.State.Text },
		Questions: func(s *State) []approval.Question {
			if s.Asks == "" {
				return nil
			}
			return []approval.Question{{ID: s.Asks, Shown: s.Asks}}
		},
		Answer: func(_ approval.Question, a approval.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{Text: "answer of " + a.By}, nil
		},
		Inbox: &w.answers,
	})
}

func (w *world) do(_ context.Context, t *orchestrator.Turn[State]) error {
	w.ran.Add(1)
	t.State.Text, t.State.Asks = t.Input.Text, ""
	switch t.Input.Text {
	case "ask":
		t.State.Asks = "q1"
	case "noise":
		noise := make([]byte, 1<<18)
		for i := range noise {
			noise[i] = byte('a' + rand.IntN(26))
		}
		t.State.Noise = string(noise)
	}
	return nil
}

// onStores runs a test on SQLite and on PostgreSQL.
func onStores(t *testing.T, test func(*testing.T, *world)) {
	t.Run("sqlite", func(t *testing.T) {
		dsn := testenv.SQLite(t)
		first := true
		test(t, &world{open: func(t *testing.T) (checkpoint.Store, snapshot.Store) {
			db, err := sql.Open("sqlite", dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			checkpoints, snapshots := sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)
			if first {
				first = false
				if _, err := db.ExecContext(t.Context(), checkpoints.Schema()+snapshots.Schema()); err != nil {
					t.Fatal(err)
				}
			}
			return checkpoints, snapshots
		}})
	})
	t.Run("postgres", func(t *testing.T) {
		pool := testenv.Postgres(t)
		test(t, &world{open: func(*testing.T) (checkpoint.Store, snapshot.Store) {
			return pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)
		}})
	})
}

// send sends a request.
func send(t *testing.T, h http.Handler, method, path, key, who, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Who", who)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func say(t *testing.T, h http.Handler, key, text string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, h, http.MethodPost, "/sessions/s/turns", key, "ann", `{"message":"`+text+`"}`)
}

// told has the fields of a response that these tests read.
type told struct {
	Type, Run, Reply string
	Turn             int
}

func of(t *testing.T, w *httptest.ResponseRecorder) (doc told) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return doc
}

// Fifty clients send one key to two processes: one turn runs, and all get its reply.
func TestKeys(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		processes := []http.Handler{w.process(t), w.process(t)}
		replies := make(chan string, 50)
		var group sync.WaitGroup
		for i := range cap(replies) {
			group.Go(func() {
				res := say(t, processes[i%2], "k", "hello")
				replies <- fmt.Sprintln(res.Code, of(t, res))
			})
		}
		group.Wait()
		first := <-replies
		for len(replies) > 0 {
			if other := <-replies; other != first {
				t.Errorf("a client is told %s, and another %s", other, first)
			}
		}
		if w.ran.Load() != 1 || !strings.HasPrefix(first, "200") {
			t.Errorf("the bot ran %d times, and the clients are told %s", w.ran.Load(), first)
		}
	})
}

// Twenty people answer at once, in two processes. One decides.
func TestAnswers(t *testing.T) {
	onStores(t, func(t *testing.T, w *world) {
		processes := []http.Handler{w.process(t), w.process(t)}
		if res := say(t, processes[0], "k", "ask"); res.Code != 200 {
			t.Fatalf("it does not ask: %d %s", res.Code, res.Body)
		}
		sum, err := inbox.Sum([]string{"s", "q1", "q1"})
		if err != nil {
			t.Fatal(err)
		}
		yes := fmt.Sprintf(`{"answer":true,"sum":%q}`, sum)
		var won atomic.Int64
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				who := fmt.Sprintf("user %d", i)
				res := send(t, processes[i%2], http.MethodPost, "/sessions/s/questions/q1", "", who, yes)
				switch doc := of(t, res); {
				case res.Code == 200 && doc.Reply == "answer of "+who:
					won.Add(1)
				case res.Code != 409 || doc.Type != "/problems/answered":
					t.Errorf("%s is told %d %s", who, res.Code, res.Body)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 || w.ran.Load() != 2 {
			t.Errorf("%d were first, and the bot ran %d times", won.Load(), w.ran.Load())
		}
	})
}

// onServer is a world on a PostgreSQL of its own.
func onServer(t *testing.T, o *testenv.Options) (*world, *testenv.Server) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	pool := pgtest.PoolOn(t, server.URL)
	checkpoints, snapshots := pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)
	if _, err := pool.Exec(t.Context(), checkpoints.Schema()+snapshots.Schema()); err != nil {
		t.Fatal(err)
	}
	return &world{
		open: func(*testing.T) (checkpoint.Store, snapshot.Store) { return checkpoints, snapshots },
		// A call waits for the store as long as for the session.
		limits: orchestrator.Limits{SettleTimeout: 2 * time.Second, LeaseTTL: 10 * time.Second, LockWait: time.Second},
	}, server
}

// While the database is away, every route says when to come back, and no turn is lost. Then all is well by itself.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w, server := onServer(t, nil)
	h := w.process(t)
	if res := say(t, h, "k1", "ask"); res.Code != 200 {
		t.Fatalf("the turn is %d %s", res.Code, res.Body)
	}
	server.Kill()
	for _, q := range [][3]string{
		{"POST", "/sessions/s/turns", `{"message":"hello"}`},
		{"POST", "/sessions/s/resume", ""},
		{"GET", "/sessions/s", ""},
		{"GET", "/sessions/s/questions", ""},
		{"DELETE", "/sessions/s", ""},
		{"POST", "/sessions/s/questions/q1", `{"answer":true,"sum":"x"}`},
		{"POST", "/sessions/s/abandon", `{"run":"r"}`},
	} {
		res := send(t, h, q[0], q[1], "k2", "ann", q[2])
		if res.Code != 503 && res.Code != 504 || res.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s is %d with %v: %s", q[0], q[1], res.Code, res.Header(), res.Body)
		}
	}
	server.Restart()
	var res *httptest.ResponseRecorder
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		if res = say(t, h, "k2", "hello"); res.Code == 200 {
			break
		}
	}
	if doc := of(t, res); res.Code != 200 || doc.Turn != 1 || doc.Reply != "hello" {
		t.Errorf("after the restart the turn is %d %s", res.Code, res.Body)
	}
}

// A disk that is full is 507. When there is space, the same request settles its turn, once.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w, server := onServer(t, &testenv.Options{TmpfsMB: 96})
	h := w.process(t)
	server.FillDisk()
	status, key, turns := 200, "", 0
	for ; status == 200; turns++ {
		key = fmt.Sprint("k", turns)
		res := say(t, h, key, "noise")
		if status = res.Code; status != 200 && (status != 507 || res.Header().Get("Retry-After") == "") {
			t.Errorf("on a full disk the turn is %d with %v: %s", status, res.Header(), res.Body)
		}
	}
	server.FreeDisk()
	var res *httptest.ResponseRecorder
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		if res = say(t, h, key, "noise"); res.Code == 200 {
			break
		}
	}
	if doc := of(t, res); res.Code != 200 || doc.Turn != turns-1 {
		t.Errorf("with space, turn %d is %d %s", turns-1, res.Code, res.Body)
	}
}
