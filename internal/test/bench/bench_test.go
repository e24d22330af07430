package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownURL) == "" {
		testenv.Main(m)
	}
	if err := own(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// Everything can be measured. The test judges no figure: a test says nothing about speed. Suites with the same options
// share a server, one after the other.
func TestQuick(t *testing.T) {
	b := &bench{scale: brief, dir: t.TempDir(), log: t.Logf}
	postgres := &servers{t, testenv.StartPostgres, newDatabase, make(map[string]*testenv.Server)}
	redises := &servers{t, testenv.StartRedis, flushed, make(map[string]*testenv.Server)}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			b.postgres, b.redis = postgres.launcher(t), redises.launcher(t)
			if _, err := exec.LookPath("gcc"); err != nil && strings.HasSuffix(s.name, slowDisk) {
				t.Skip("no gcc builds the slow disk:", err)
			}
			if s.name == "agents-elsewhere" {
				if _, err := fetchLangGraph(t.Context()); err != nil {
					t.Skip("LangGraph is not here:", err)
				}
			}
			measured := len(b.results)
			if err := b.run(t.Context(), regexp.MustCompile("^"+s.name+"$")); err != nil {
				t.Fatal(err)
			}
			if len(b.results) == measured {
				t.Error("nothing was measured")
			}
		})
	}
	var report strings.Builder
	if _, err := b.WriteTo(&report); err != nil {
		t.Fatal(err)
	}
	t.Log(report.String())
}

// servers are one for each kind of options. They run until the parent test ends. empty returns the URL of an empty
// database on one.
type servers struct {
	parent  *testing.T
	start   func(testing.TB, *testenv.Options) *testenv.Server
	empty   func(*testing.T, *testenv.Server) string
	started map[string]*testenv.Server
}

// launcher starts servers for t, a part of the parent.
func (s *servers) launcher(t *testing.T) launcher {
	return func(o *testenv.Options) (string, func() error, error) {
		options := fmt.Sprintf("%+v", *o)
		if s.started[options] == nil {
			s.started[options] = s.start(outliving{t, s.parent}, o)
		}
		return s.empty(t, s.started[options]), func() error { return nil }, nil
	}
}

// outliving is a test whose server others go on to use. If there is no server, the test alone is skipped. A server ends
// with the parent.
type outliving struct {
	testing.TB
	parent testing.TB
}

func (o outliving) Cleanup(f func())              { o.parent.Cleanup(f) }
func (o outliving) Errorf(text string, of ...any) { o.parent.Errorf(text, of...) }

func newDatabase(t *testing.T, s *testenv.Server) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	name := "bench_" + strings.ToLower(rand.Text())
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(s.URL, "/postgres?", "/"+name+"?", 1)
}

func flushed(t *testing.T, s *testenv.Server) string {
	t.Helper()
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	defer client.Close()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return s.URL
}

func TestGoals(t *testing.T) {
	r := result{samples: []sample{
		{100, 150, 7, 1024, 10, 5, 3}, {100, 90, 8, 2048, 10, 6, 4}, {100, 130, 9, 512, 10, 8, 5},
	}}
	for _, test := range []struct {
		goal goal
		met  bool
		text string
	}{
		{goal{}, true, "1.30 × (0.90–1.50)"},
		{atLeast(1.3), true, "1.30 × (0.90–1.50)"},
		{atLeast(1.31), false, "1.30 × (0.90–1.50)"},
		{atMost(0.8), true, "0.77 × the time (0.67–1.11)"},
		{atMost(0.7), false, "0.77 × the time (0.67–1.11)"},
		{below(8e6), true, "7.69 ms (6.67–11.11)"},
		{below(7e6), false, "7.69 ms (6.67–11.11)"},
		{atPace(130), true, "130 per s (90.00–150)"},
		{atPace(131), false, "130 per s (90.00–150)"},
		{allocating(8), true, "8.00 allocations (7.00–9.00)"},
		{allocating(7), false, "8.00 allocations (7.00–9.00)"},
		{allocatingBytes(1024), true, "1.00 KiB allocated (0.50–2.00)"},
		{allocatingBytes(1023), false, "1.00 KiB allocated (0.50–2.00)"},
		{working(0.6), true, "0.60 × the processor (0.50–0.80)"},
		{working(0.59), false, "0.60 × the processor (0.50–0.80)"},
		{keeping(4, "goroutines"), true, "4.00 goroutines (3.00–5.00)"},
		{keeping(3.9, "goroutines"), false, "4.00 goroutines (3.00–5.00)"},
	} {
		if met := test.goal.met(r); met != test.met {
			t.Errorf("%v met: %v, want %v", test.goal, met, test.met)
		}
		if text := test.goal.measured(r); text != test.text {
			t.Errorf("%v: %q, want %q", test.goal, text, test.text)
		}
	}
}

func TestProse(t *testing.T) {
	for i, state := range prose(64) {
		if len(state) != stateBytes {
			t.Errorf("state %d has %d bytes, want %d", i, len(state), stateBytes)
		}
	}
}
