package workflowhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// secret is in errors and panics, and must not go out.
const secret = "hunter2"

// A world is a store with a few runs, and a handler.
type world struct {
	*workflow.Memory

	// fault is what each call of the store does first. nil is nothing.
	fault func() error

	mu   sync.Mutex
	logs strings.Builder
}

// newWorld returns a store with the run "r" of "refund", which has a step and waits for "decision", the run "over" of
// "refund", and a subscription with a message "m".
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Memory: new(workflow.Memory)}
	ctx := t.Context()
	_, err := w.Memory.Start(ctx, []workflow.NewRun{
		{ID: "r", Workflow: "refund", Input: []byte(`{"order":"A-1042","cents":100}`), Key: "A-1042"},
		{ID: "over", Workflow: "refund"},
	})
	_, err2 := w.Memory.Send(ctx, []workflow.Message{{Run: "over", Action: workflow.Cancel}})
	err3 := w.Memory.Subscribe(ctx, workflow.Subscription{ID: "s", Pattern: "user.*", Workflow: "refund"})
	err4 := w.wait(ctx, "r", "decision")
	_, err5 := workflow.Publish(ctx, w.Memory, nil, "user.deleted", "m", 1)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	return w
}

// wait runs one step of a run, and lets it wait for an event.
func (w *world) wait(ctx context.Context, run, event string) error {
	claimed, _, err := w.Memory.Claim(ctx, workflow.ClaimRequest{
		Process: "p", Nonce: "n", Definitions: []workflow.Definition{{Workflow: "refund", Version: 1}}, Limit: 1,
	})
	if err != nil || len(claimed) != 1 || claimed[0].ID != run {
		return fmt.Errorf("claimed %v: %w", claimed, err)
	}
	verdicts, err := w.Memory.Write(ctx, []workflow.Entry{{
		Run: run, Fence: claimed[0].Fence, Next: workflow.Park, Event: event, Match: []byte(`{"by":"ada"}`), Mail: -1,
		Steps: []workflow.Step{
			{
				Name: "pay", Kind: workflow.KindStep, Outcome: workflow.Done, Output: []byte(`"receipt"`), Attempts: 1,
				Took: 20_000_000,
			},
			{Name: event, Index: 1, Kind: workflow.KindWait, Outcome: workflow.Open},
		},
	}})
	return errors.Join(append(verdicts, err)...)
}

func (w *world) failing() error {
	if w.fault == nil {
		return nil
	}
	return w.fault()
}

func (w *world) Start(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
	if err := w.failing(); err != nil {
		return nil, err
	}
	return w.Memory.Start(ctx, runs)
}

func (w *world) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	if err := w.failing(); err != nil {
		return func(yield func(workflow.Run, error) bool) { yield(workflow.Run{}, err) }
	}
	return w.Memory.Runs(ctx, q)
}

func (w *world) Counts(ctx context.Context, of ...workflow.Status) (map[string]map[workflow.Status]int, error) {
	if err := w.failing(); err != nil {
		return nil, err
	}
	return w.Memory.Counts(ctx, of...)
}

func (w *world) Subscribe(ctx context.Context, s workflow.Subscription) error {
	if err := w.failing(); err != nil {
		return err
	}
	return w.Memory.Subscribe(ctx, s)
}

func (w *world) Subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	if err := w.failing(); err != nil {
		return nil, err
	}
	return w.Memory.Subscriptions(ctx)
}

// A logger keeps the logs of a world.
type logger struct{ w *world }

func (l logger) Write(line []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.logs.Write(line)
}

// options are those of the handlers of these tests.
func (w *world) options() *workflowhttp.Options {
	return &workflowhttp.Options{
		Authorize: func(r *http.Request, _ workflowhttp.Action, _ workflowhttp.Target) error {
			switch r.Header.Get("Authorization") {
			case "wrong":
				return errors.New(secret)
			case "other":
				return fmt.Errorf("%s: %w", secret, workflowhttp.ErrDenied)
			case "panic":
				panic(secret)
			case "abort":
				panic(http.ErrAbortHandler)
			}
			return nil
		},
		Subscriptions: w,
		Logger:        slog.New(slog.NewTextHandler(logger{w}, nil)),
	}
}

func (w *world) handler() http.Handler { return workflowhttp.New(w, w.options()) }

// dump returns all that is stored.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var all []any
	for r, err := range w.Memory.Runs(t.Context(), workflow.Query{}) {
		all = append(all, r, err)
		for s, err := range w.Memory.Steps(t.Context(), r.ID) {
			all = append(all, s, err)
		}
	}
	subscriptions, err := w.Memory.Subscriptions(t.Context())
	doc, err2 := json.Marshal(append(all, subscriptions))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// A request is a request of a test. Its fields without a value are left out.
type request struct {
	method, path, body string
	header             map[string]string

	// slow says that the body does not arrive in time.
	slow bool
}

func (q request) make(ctx context.Context, base string) *http.Request {
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	if q.slow {
		body = iotest.ErrReader(os.ErrDeadlineExceeded)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, base+q.path, body)
	if err != nil {
		panic(err)
	}
	if q.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	return r
}

// to sends the request to a handler.
func (q request) to(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q.make(ctx, ""))
	return w
}

func get(path string) request { return request{method: "GET", path: path} }

func post(path, body string) request { return request{method: "POST", path: path, body: body} }

// with returns the request with a header more.
func (q request) with(name, value string) request {
	header := map[string]string{name: value}
	for name, value := range q.header {
		header[name] = value
	}
	q.header = header
	return q
}

func decode[T any](t *testing.T, doc []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// typeOf returns the type of a problem document.
func typeOf(doc []byte) string {
	var p struct{ Type string }
	_ = json.Unmarshal(doc, &p)
	kind, ok := strings.CutPrefix(p.Type, "/problems/")
	if !ok {
		return ""
	}
	return kind
}
