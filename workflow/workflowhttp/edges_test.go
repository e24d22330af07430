package workflowhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

func sent(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Authorize is asked for each route with its action and what it is about, before the store is.
func TestAuthorizeIsAsked(t *testing.T) {
	r := workflowhttp.Target{Workflow: "refund", Run: "r"}
	signal := r
	signal.Event = "decision"
	pattern := workflowhttp.Target{Topic: "user.*"}
	subscription := pattern
	subscription.Subscription = "s"
	wants := map[string][]any{
		"index":         {workflowhttp.ActionIndex, workflowhttp.Target{}},
		"start":         {workflowhttp.ActionStart, workflowhttp.Target{Workflow: "refund"}},
		"list":          {workflowhttp.ActionList, workflowhttp.Target{Workflow: "refund"}},
		"get":           {workflowhttp.ActionRead, r},
		"steps":         {workflowhttp.ActionRead, r},
		"cancel":        {workflowhttp.ActionCancel, r},
		"pause":         {workflowhttp.ActionPause, r},
		"resume":        {workflowhttp.ActionResume, r},
		"signal":        {workflowhttp.ActionSignal, signal},
		"subscribe":     {workflowhttp.ActionSubscribe, pattern},
		"subscriptions": {workflowhttp.ActionSubscriptions, pattern},
		"unsubscribe":   {workflowhttp.ActionUnsubscribe, subscription},
		"publish":       {workflowhttp.ActionPublish, workflowhttp.Target{Topic: "user.signup"}},
	}
	for name, q := range routes {
		w := newWorld(t)
		w.fault = func() error { t.Errorf("%s: the store is asked first", name); return nil }
		o := w.options()
		var asked []any
		o.Authorize = func(_ *http.Request, action workflowhttp.Action, to workflowhttp.Target) error {
			asked = append(asked, action, to)
			return workflowhttp.ErrDenied
		}
		if res := q.to(t.Context(), workflowhttp.New(w, o)); res.Code != 403 || !slices.Equal(asked, wants[name]) {
			t.Errorf("%s is %d, and asks %v, want %v", name, res.Code, asked, wants[name])
		}
	}
}

// Who may not start the runs of a workflow cannot subscribe it to a topic, and then publish. A webhook and a session
// are runs too.
func TestSubscribersMayStart(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"workflow","name":"refund"}`:             "refund",
		`{"type":"http","url":"http://10.0.0.1/x"}`:       "webhook",
		`{"type":"session","session":"customer-7"}`:       "session",
		`{"type":"workflow","name":"refund","id":"mine"}`: "refund",
	} {
		w := newWorld(t)
		before := w.dump(t)
		o := w.options()
		var asked string
		o.Authorize = func(_ *http.Request, action workflowhttp.Action, to workflowhttp.Target) error {
			if action != workflowhttp.ActionStart {
				return nil
			}
			asked = to.Workflow
			return workflowhttp.ErrDenied
		}
		if res := post(topics, body).to(t.Context(), workflowhttp.New(w, o)); res.Code != 403 || asked != want {
			t.Errorf("%s is %d, and asks for %q", body, res.Code, asked)
		}
		if w.dump(t) != before {
			t.Errorf("%s is stored", body)
		}
	}
}

// The rule of an internal service: any header Authorization passes, none is 403, and health and metrics are open.
func TestHeaderPresent(t *testing.T) {
	mux := service(newWorld(t))
	for _, c := range []struct {
		path, header string
		want         int
	}{
		{"/v1/workflows", "", 403},
		{"/v1/workflows", "Bearer anything", 200},
		{"/v1/workflows", "x", 200},
		{"/healthz", "", 200},
		{"/metrics", "", 200},
	} {
		q := get(c.path)
		if c.header != "" {
			q = q.with("Authorization", c.header)
		}
		if res := q.to(t.Context(), mux); res.Code != c.want {
			t.Errorf("%s with %q is %d, want %d", c.path, c.header, res.Code, c.want)
		}
	}
}

// service is a program that serves runs beside its health and its metrics.
func service(f workflow.Front) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", workflowhttp.New(f, &workflowhttp.Options{Authorize: workflowhttp.HeaderPresent}))
	open := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("GET /healthz", open)
	mux.HandleFunc("GET /metrics", open)
	return mux
}

// serve serves a handler on the loopback.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); s.Close() })
	return s.URL
}

func do(t *testing.T, r *http.Request) (*http.Response, string, error) {
	t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// A client that sends half a body, over a connection, is 400, and nothing is stored.
func TestCutOffBody(t *testing.T) {
	w := newWorld(t)
	before := w.dump(t)
	address := strings.TrimPrefix(serve(t, w.handler()), "http://")
	for _, path := range []string{runs, ofR + "/signals/decision", topics, "/v1/topics/user.signup/messages"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: 40\r\n\r\n{\"input\":", path)
		err2 := conn.(*net.TCPConn).CloseWrite()
		answer, err3 := io.ReadAll(conn)
		if err := errors.Join(err, err2, err3, conn.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("%s is %s", path, answer)
		}
	}
	if w.dump(t) != before {
		t.Error("something is stored")
	}
}

// HEAD is what GET is, without the body.
func TestHead(t *testing.T) {
	base := serve(t, newWorld(t).handler())
	for _, name := range []string{"index", "list", "get", "steps", "subscriptions"} {
		q := routes[name]
		q.method = "HEAD"
		res, body, err := do(t, q.make(t.Context(), base))
		if err != nil || res.StatusCode != 200 || body != "" || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s is %v %q %v", name, res, body, err)
		}
	}
}

// A broken is a store whose journals break after a step.
type broken struct {
	*world
	breaks func() error
}

func (b broken) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return func(yield func(workflow.Step, error) bool) {
		for s, err := range b.world.Steps(ctx, run) {
			if !yield(s, err) {
				return
			}
			yield(workflow.Step{}, b.breaks())
			return
		}
	}
}

// A journal that cannot be read to its end is no whole answer. A function that cuts the connection may do so.
func TestCutOffAnswer(t *testing.T) {
	for name, breaks := range map[string]func() error{
		"an error": func() error { return errors.New(secret) },
		"a panic":  func() error { panic(secret) },
	} {
		w := newWorld(t)
		base := serve(t, workflowhttp.New(broken{w, breaks}, w.options()))
		res, body, err := do(t, routes["steps"].make(t.Context(), base))
		if err == nil {
			t.Errorf("%s: it is %d %s", name, res.StatusCode, body)
		}
		w.mu.Lock()
		logs := w.logs.String()
		w.mu.Unlock()
		if strings.Count(logs, "\n") != 1 || strings.Contains(logs, "panic") != (name == "a panic") {
			t.Errorf("%s: it logs %s", name, logs)
		}
	}
	base := serve(t, newWorld(t).handler())
	if res, _, err := do(t, routes["get"].with("Authorization", "abort").make(t.Context(), base)); err == nil {
		t.Errorf("http.ErrAbortHandler is %d", res.StatusCode)
	}
}

// The log of a panic has its stack and its type, and not its value.
func TestLogOfPanic(t *testing.T) {
	w := newWorld(t)
	routes["get"].with("Authorization", "panic").to(t.Context(), w.handler())
	line := w.logs.String()
	for _, want := range []string{
		"handler panicked", "panic with a string", "workflow=refund", "run=r", "helpers_test.go",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("it has no %q", want)
		}
	}
	if strings.Contains(line, secret) {
		t.Errorf("it says too much: %s", line)
	}
}

// A damaged is a store with a run and a step that no store wrote.
type damaged struct{ *world }

func (d damaged) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	return func(yield func(workflow.Run, error) bool) {
		for r, err := range d.world.Runs(ctx, q) {
			if r.ID == "r" {
				r.Status, r.Input, err = "hunter2", []byte("{"), workflow.Damaged("r", errors.New(secret))
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (d damaged) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return func(yield func(workflow.Step, error) bool) {
		for s, err := range d.world.Steps(ctx, run) {
			s.Output = []byte("{")
			if err != nil || !yield(s, workflow.DamagedStep(run, s.Name, errors.New(secret))) {
				return
			}
		}
	}
}

// A damaged run and a damaged step are shown as such, and hide no others. An operator can cancel the run.
func TestDamaged(t *testing.T) {
	w := newWorld(t)
	h := workflowhttp.New(damaged{w}, w.options())
	doc := openAPI(t, nil)
	for _, name := range []string{"list", "get", "steps", "cancel"} {
		q := routes[name]
		q.path, _, _ = strings.Cut(q.path, "?")
		res := q.to(t.Context(), h)
		path := strings.TrimPrefix(q.path, "/v1")
		err := doc.Check(q.method, path, res.Code, "application/json", res.Body.Bytes())
		if err != nil || res.Code != 200 {
			t.Errorf("%s is %d %v", name, res.Code, err)
		}
		if name != "cancel" && !strings.Contains(res.Body.String(), `"damaged":true`) ||
			strings.Contains(res.Body.String(), secret) {
			t.Errorf("%s: %s", name, res.Body)
		}
	}
	if p := list(t, h, "refund", ""); len(p.Runs) != 3 {
		t.Errorf("the list has %v", p.ids())
	}
}

// FuzzStart looks for a body that is answered otherwise than with a run or a refusal. What is refused is not stored.
func FuzzStart(f *testing.F) {
	for body := range badStarts {
		if len(body) < 1000 {
			f.Add(body)
		}
	}
	f.Add(`{"input":{"a":[1,null,"x"]},"version":2,"retentionDays":3,"delaySeconds":0.25}`)
	f.Fuzz(func(t *testing.T, body string) {
		m := new(workflow.Memory)
		h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
		res := post(runs, body).to(t.Context(), h)
		stored := 0
		for r, err := range m.Runs(t.Context(), workflow.Query{}) {
			if stored++; err != nil || r.Workflow != "refund" || !json.Valid(r.Input) {
				t.Errorf("%+v %v", r, err)
			}
		}
		switch res.Code {
		case 201, 400, 422:
			if (stored == 1) != (res.Code == 201) {
				t.Errorf("%d, and %d are stored", res.Code, stored)
			}
		default:
			t.Errorf("it is %d %s", res.Code, res.Body)
		}
	})
}

// Pages of other origins, and the types of problems, are as the options say: package turnhttp has the tests of each.
func TestSite(t *testing.T) {
	const page, base = "https://app.example.com", "https://example.com/problems/"
	w := newWorld(t)
	o := w.options()
	o.Origins, o.Credentials, o.ProblemBase = []string{page}, true, base
	o.Security = map[string]any{"bearer": map[string]string{"type": "http", "scheme": "bearer"}}
	h := workflowhttp.New(w, o)
	for _, c := range []struct {
		request
		status  int
		allowed string
	}{
		{get(ofR), 200, page},
		{get(runs + "/none"), 404, page},
		{get(ofR).with("Authorization", "panic"), 500, page},
		{request{method: "OPTIONS", path: ofR}.with("Access-Control-Request-Method", "DELETE"), 204, page},
		{request{method: "OPTIONS", path: "/v1/nothing"}, 404, page},
		{get(ofR).with("Origin", "https://evil.example"), 200, ""},
	} {
		q := c.request
		if q.header["Origin"] == "" {
			q = q.with("Origin", page)
		}
		res := q.to(t.Context(), h)
		if got := res.Header().Get("Access-Control-Allow-Origin"); res.Code != c.status || got != c.allowed {
			t.Errorf("%s %s: %d, and %q may read it", q.method, q.path, res.Code, got)
		}
		if body := res.Body.String(); res.Code >= 400 && !strings.Contains(body, `"type":"`+base) {
			t.Errorf("%s %s: %s", q.method, q.path, body)
		}
	}
	doc := get("/v1/openapi.json").to(t.Context(), h).Body.String()
	for _, part := range []string{`"securitySchemes"`, base + "key-reused"} {
		if !strings.Contains(doc, part) {
			t.Errorf("the document lacks %s", part)
		}
	}
	o.Origins = append(o.Origins, "*")
	if !panics(func() { workflowhttp.New(w, o) }) {
		t.Error("New takes any page with cookies")
	}
}
