package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/snapshot"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type (
	State struct{ Said []string }
	Turn  = orchestrator.Turn[State]
	Bot   = orchestrator.Orchestrator[State]
	Def   = orchestrator.Definition[State]
)

// A model is a server that notes what it is asked.
type model struct {
	url    string
	client *http.Client // without a Recorder

	mu    sync.Mutex // protects following field
	asked []string
}

// newModel starts a model. answer writes the reply to a question.
func newModel(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, question string)) *model {
	m := new(model)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		m.mu.Lock()
		m.asked = append(m.asked, string(body))
		m.mu.Unlock()
		answer(w, r, string(body))
	}))
	t.Cleanup(s.Close)
	m.url, m.client = s.URL+"/chat", s.Client()
	return m
}

// echo answers with the question.
func echo(w http.ResponseWriter, _ *http.Request, question string) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "reply to "+question)
}

// recorded returns a client with a Recorder.
func (m *model) recorded(o *oncehttp.Options) *http.Client {
	return &http.Client{Transport: oncehttp.New(o).Transport(m.client.Transport)}
}

func (m *model) wantAsked(t testing.TB, want ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	got := slices.Sorted(slices.Values(m.asked))
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the model was asked %q, want %q", got, want)
	}
}

// ask asks a model with a client. It returns the body.
func (m *model) ask(ctx context.Context, c *http.Client, question string) (string, error) {
	res, err := m.open(ctx, c, question)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(text), err
}

func (m *model) open(ctx context.Context, c *http.Client, question string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, strings.NewReader(question))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer secret-key")
	return c.Do(req)
}

// single is a bot with one intent.
func single(run func(ctx context.Context, t *Turn) error) Def {
	return Def{Name: "bot", Intents: orchestrator.Intents[State]{"work": {Run: run}}}
}

// start starts a bot in memory.
func start(t testing.TB, d Def, l ledger.Ledger, logs io.Writer) *Bot {
	t.Helper()
	bot, err := orchestrator.New(d, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), Ledger: l, Logger: slog.New(slog.NewTextHandler(logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return bot
}

// once runs a turn of an intent. It returns what Execute returns, and the effects.
func once(
	t testing.TB, run func(ctx context.Context, t *Turn) error,
) (*orchestrator.Result[State], []ledger.Effect, error) {
	t.Helper()
	l := new(ledger.Memory)
	res, err := start(t, single(run), l, io.Discard).Execute(t.Context(), "s", orchestrator.Input{}, nil)
	return res, effects(t, l), err
}

func effects(t testing.TB, l ledger.Ledger) (all []ledger.Effect) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// resumed runs a turn in a process that dies at the end of its intent, and then in another process.
func resumed(t testing.TB, d Def) (*orchestrator.Result[State], error) {
	t.Helper()
	var w orchestratortest.World
	first := orchestratortest.Start(&w, d, nil)
	first.DieAfter("work", 1)
	if _, err := first.Bot.Execute(t.Context(), "s", orchestrator.Input{}, nil); err == nil {
		t.Fatal("the process did not die")
	}
	if err := first.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return orchestratortest.Start(&w, d, nil).Bot.Resume(t.Context(), "s", nil)
}

// mustEqual checks one value.
func mustEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A logbook is where a bot logs.
type logbook struct {
	mu sync.Mutex // protects following field
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
