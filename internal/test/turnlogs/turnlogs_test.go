package turnlogs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/internal/test/turnlogs"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
	"github.com/holdfast-go/holdfast/workflow"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The adapters of docs/turnlog.md are those that are tested here, and are short.
func TestAdaptersOfDocs(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/turnlog.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```go\n(package .*?)```\n").FindAllStringSubmatch(string(doc), -1)
	files := []string{"sqllog.go", "objectlog.go"}
	if len(blocks) != len(files) {
		t.Fatalf("docs/turnlog.md has %d programs, want %d", len(blocks), len(files))
	}
	for i, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := string(file)
		if got := blocks[i][1]; got != want {
			t.Errorf("docs/turnlog.md shows\n%s\nand %s is\n%s", got, name, want)
		}
		if lines := strings.Count(want, "\n"); lines >= 100 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}

func TestSQLLog(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *sql.DB{
		"sqlite": func(t *testing.T) *sql.DB { return sqlitetest.Open(t, testenv.SQLite(t)) },
		"postgres": func(t *testing.T) *sql.DB {
			db, err := sql.Open("pgx", testenv.PostgresURL(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
				db := open(t)
				sqlitetest.Exec(t, db, turnlogs.SQLTable)
				return turnlogs.SQLLog{DB: db}
			})
		})
	}
}

func TestWorkflowLog(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) workflow.Front{
		"memory": func(*testing.T) workflow.Front { return new(workflow.Memory) },
		"sqlite": func(t *testing.T) workflow.Front {
			db := sqlite.New(sqlitetest.Open(t, testenv.SQLite(t)), nil)
			if err := db.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			return db.Workflows()
		},
		"postgres": func(t *testing.T) workflow.Front {
			db := postgres.New(pgtest.EmptyPool(t), nil)
			if err := db.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			return db.Workflows()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turnlogtest.Run(t, func(t *testing.T) turnlog.Log { return turnlogs.WorkflowLog{Store: open(t)} })
		})
	}
}

// openBucket returns a log on a new bucket behind a wire.
func openBucket(t *testing.T) (turnlogs.ObjectLog, *turnlogs.Bucket, *wire) {
	t.Helper()
	b := new(turnlogs.Bucket)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	w := newWire(t, server.Listener.Addr().String())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return turnlogs.ObjectLog{URL: "http://" + w.listener.Addr().String(), Client: client}, b, w
}

func TestObjectLog(t *testing.T) {
	t.Parallel()
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
		l, _, _ := openBucket(t)
		return l
	})
}

func entry(ms int, state string) turnlog.Entry {
	return turnlog.Entry{
		Run: "run", Orchestrator: "bot", Session: "session", Phase: turnlog.ToolReceived, State: json.RawMessage(state),
		At: time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC(),
	}
}

// What was acknowledged is there, whatever the wire does. What was not is recorded again, and is there once.
func TestObjectLogOnBadWire(t *testing.T) {
	t.Parallel()
	l, b, w := openBucket(t)
	w.bad.Store(true)
	const entries = 60
	failed := 0
	for i := range entries {
		e := entry(i, fmt.Sprint(i))
		for l.Record(t.Context(), e) != nil {
			failed++
		}
	}
	if failed == 0 || w.requests.Load() == 0 || w.replies.Load() == 0 {
		t.Errorf("%d calls failed, %d requests and %d replies were cut off",
			failed, w.requests.Load(), w.replies.Load())
	}
	if got := b.Len(); got != entries {
		t.Errorf("%d objects, want %d", got, entries)
	}
	for range 20 {
		if all, err := l.Restore(t.Context(), "run"); err == nil && len(all) != entries {
			t.Errorf("a list that was cut off is taken for the whole: %d entries", len(all))
		}
	}
	w.bad.Store(false)
	all, err := l.Restore(t.Context(), "run")
	if err != nil || len(all) != entries {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	for i, e := range all {
		if !e.At.Equal(entry(i, "").At) || string(e.State) != fmt.Sprint(i) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
}

// A caller that does not wait for a slow store gets an error, and records again.
func TestObjectLogOnSlowWire(t *testing.T) {
	t.Parallel()
	l, _, w := openBucket(t)
	hold := make(chan struct{})
	w.hold.Store(&hold)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	e := entry(1, "{}")
	if err := l.Record(ctx, e); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reply that does not come: %v", err)
	}
	close(hold)
	for range 2 {
		if err := l.Record(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	if all, err := l.Restore(t.Context(), "run"); err != nil || len(all) != 1 {
		t.Errorf("%d entries, %v", len(all), err)
	}
}

// A wire stands between a client and a server. Each connection is for one request.
type wire struct {
	listener net.Listener
	server   string

	// bad says that the wire cuts a request, or the reply to it, of each third connection. It counts them.
	bad                            atomic.Bool
	connections, requests, replies atomic.Int64

	// hold keeps replies back until it is closed.
	hold atomic.Pointer[chan struct{}]
}

func newWire(t *testing.T, server string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, server: server}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.carry(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
	})
	return w
}

// carry carries one connection.
func (w *wire) carry(client net.Conn) {
	defer client.Close()
	n := w.connections.Add(1)
	bad := w.bad.Load()
	if bad && n%6 == 1 {
		w.requests.Add(1)
		return
	}
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close() // the client has gone
	}()
	if hold := w.hold.Load(); hold != nil {
		<-*hold
	}
	if bad && n%6 == 4 {
		_, _ = server.Read(make([]byte, 1)) // the server has done its work
		w.replies.Add(1)
		return
	}
	_, _ = io.Copy(client, server)
}
