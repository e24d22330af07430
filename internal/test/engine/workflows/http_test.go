package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// A caller is a client of the routes over a connection.
type caller struct {
	t    *testing.T
	base string
}

// do sends a request, wants the status, and decodes the answer into v.
func (c caller) do(want int, method, path, body string, v any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "any")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	doc, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		c.t.Fatalf("%s %s is %d, want %d: %s %v", method, path, res.StatusCode, want, doc, err)
	}
	if v != nil {
		if err := json.Unmarshal(doc, v); err != nil {
			c.t.Fatalf("%s: %v", doc, err)
		}
	}
}

type runDoc struct {
	ID, Status, Event, Receipt, Hold string
	New                              bool
	Output                           json.RawMessage
}

// until asks for a run until it is as ok wants it.
func (c caller) until(path string, ok func(runDoc) bool) (r runDoc) {
	c.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if c.do(200, "GET", path, "", &r); ok(r) {
			return r
		}
	}
	c.t.Fatalf("the run is %+v", r)
	return r
}

// served runs an engine, and serves its runs.
func served(t *testing.T, w *world, defs ...flow.Definition) caller {
	t.Helper()
	e := flow.NewEngine(w.store, w.options(), defs...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	server := httptest.NewServer(workflowhttp.New(e.Front(), &workflowhttp.Options{
		Authorize: workflowhttp.HeaderPresent, Subscriptions: w.store,
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return caller{t, server.URL + "/v1/workflows"}
}

// A message over HTTP starts a run of each subscription that fits, once, with the message as input.
func TestTopicsOverHTTP(t *testing.T) {
	t.Parallel()
	echo := flow.New("echo", 1, func(_ *flow.Run, in string) (string, error) { return in, nil })
	for name, at := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := served(t, at(t).here(t), echo)
			topics := caller{t, strings.Replace(c.base, "/workflows", "/topics", 1)}
			for _, id := range []string{"a", "b", "a"} {
				topics.do(201, "POST", "/user.%2A/subscriptions", `{"type":"workflow","name":"echo","id":"`+id+`"}`, nil)
			}
			topics.do(201, "POST", "/order.%23/subscriptions", `{"type":"workflow","name":"echo","id":"c"}`, nil)
			topics.do(409, "POST", "/user.%2A/subscriptions", `{"type":"workflow","name":"other","id":"a"}`, nil)
			topics.do(404, "DELETE", "/user.%2A/subscriptions/c", "", nil)
			var published struct{ Runs []runDoc }
			topics.do(200, "POST", "/user.signup/messages", `"ada"`, &published)
			if len(published.Runs) != 2 || !published.Runs[0].New {
				t.Fatalf("it starts %+v", published.Runs)
			}
			for _, started := range published.Runs {
				r := c.until("/echo/runs/"+started.ID, func(r runDoc) bool { return r.Status == "completed" })
				if string(r.Output) != `"ada"` {
					t.Errorf("the run is %+v", r)
				}
			}
			topics.do(204, "DELETE", "/user.%2A/subscriptions/b", "", nil)
			topics.do(204, "DELETE", "/user.%2A/subscriptions/b", "", nil)
			topics.do(200, "POST", "/user.signup/messages", `"bob"`, &published)
			if len(published.Runs) != 1 {
				t.Errorf("without a subscription it starts %+v", published.Runs)
			}
		})
	}
}

// A run is started, listed, signalled, read and cancelled over HTTP, with an engine at work on it.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	approve := flow.New("approve", 1, func(r *flow.Run, in struct{ User int }) (string, error) {
		if err := flow.Do(r, "ask", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		d, err := flow.Wait[struct{ By string }](r, "decision", flow.Match{"user": in.User})
		return d.By, err
	})
	for name, at := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := served(t, at(t).here(t), approve)
			var first, again runDoc
			const body = `{"input":{"User":42},"idempotencyKey":"42"}`
			c.do(201, "POST", "/approve/runs", body, &first)
			if c.do(200, "POST", "/approve/runs", body, &again); !first.New || again.New || again.ID != first.ID {
				t.Errorf("started %+v, and again %+v", first, again)
			}
			c.do(409, "POST", "/approve/runs", `{"idempotencyKey":"42"}`, nil)
			path := "/approve/runs/" + first.ID
			waits := func(r runDoc) bool { return r.Event == "decision" }
			c.until(path, waits)
			c.do(404, "GET", "/other/runs/"+first.ID, "", nil)
			var r runDoc
			c.do(202, "POST", path+"/signals/decision", `{"user":7,"By":"eve"}`, &r)
			c.do(200, "POST", path+"/pause", "", nil)
			c.until(path, func(r runDoc) bool { return r.Hold == "paused" })
			c.do(200, "POST", path+"/resume", "", nil)
			c.until(path, waits)
			if c.do(200, "POST", path+"/signals/decision", `{"user":42,"By":"ada"}`, &r); r.Receipt != "consumed" {
				t.Errorf("the signal is %+v", r)
			}
			r = c.until(path, func(r runDoc) bool { return r.Status != "running" })
			if r.Status != "completed" || string(r.Output) != `"ada"` {
				t.Errorf("the run is %+v", r)
			}
			c.journal(path)
			c.do(200, "DELETE", path, "", &r)
			c.do(409, "POST", path+"/signals/decision", `{}`, nil)
			c.do(201, "POST", "/approve/runs", `{"input":{"User":7},"delaySeconds":3600}`, &first)
			c.do(200, "DELETE", "/approve/runs/"+first.ID, "", &again)
			if again.Receipt != "applied" || r.Receipt != "over" {
				t.Errorf("a cancel is %q, and of a run that is over %q", again.Receipt, r.Receipt)
			}
			var index []map[string]any
			c.do(200, "GET", "", "", &index)
			want := "[map[cancelled:1 completed:1 failed:0 name:approve running:0]]"
			if got := fmt.Sprint(index); got != want {
				t.Errorf("the index is %s, want %s", got, want)
			}
		})
	}
}

// journal wants the rows of a run in their order, each with its duration, and the signal that no wait took.
func (c caller) journal(path string) {
	c.t.Helper()
	var doc struct {
		Steps []struct {
			Name, Kind string
			Seconds    float64
			Started    time.Time
		}
	}
	c.do(200, "GET", path+"/steps", "", &doc)
	var got []string
	for i, s := range doc.Steps {
		got = append(got, s.Name+" "+s.Kind)
		if s.Seconds < 0 || s.Kind == "wait" && s.Seconds == 0 {
			c.t.Errorf("step %s took %v seconds", s.Name, s.Seconds)
		}
		if i > 0 && s.Kind != "signal" && s.Started.Before(doc.Steps[i-1].Started) {
			c.t.Errorf("step %s comes after one that started later", s.Name)
		}
	}
	if fmt.Sprint(got) != "[ask run decision wait decision signal]" {
		c.t.Errorf("the journal is %v", got)
	}
}

// The filters select on each store, also in pages of two while runs start, and what is refused is not stored.
func TestListOverHTTP(t *testing.T) {
	t.Parallel()
	for name, at := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := at(t).here(t)
			h := workflowhttp.New(w.store, &workflowhttp.Options{Authorize: workflowhttp.HeaderPresent})
			server := httptest.NewServer(h)
			t.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); server.Close() })
			c := caller{t, server.URL + "/v1/workflows"}
			ids := make(map[string]string)
			for i, input := range []string{
				`{"user":{"id":42},"plan":"pro"}`, `{"user":{"id":"42"}}`, `{"user":{"id":42.0,"vip":true}}`,
				`["a",1]`, `null`,
			} {
				var r runDoc
				c.do(201, "POST", "/onboard/runs", `{"input":`+input+`}`, &r)
				ids[r.ID] = fmt.Sprint(i)
			}
			for i, query := range []string{
				"", "input.user.id=42", "input.user.id=%2242%22", "input.user.id=4.2e1&input.plan=pro",
				"input.user={%22vip%22:true}&status=running&since=2020-01-01&until=2100-01-01", "status=failed",
				"since=2100-01-01",
			} {
				want := []string{"43210", "20", "1", "0", "2", "", ""}[i]
				if got := c.pages(query, ids); got != want {
					t.Errorf("%s has %q, want %q", query, got, want)
				}
			}
			for _, bad := range []string{
				`{"version":-1}`, `{"retentionDays":-1}`, `{"idempotencyKey":"` + strings.Repeat("x", 513) + `"}`,
			} {
				c.do(422, "POST", "/refused/runs", bad, nil)
			}
			c.do(422, "POST", "/Refused/runs", `{}`, nil)
			c.do(400, "POST", "/refused/runs", `{"input":`, nil)
			c.do(413, "POST", "/refused/runs", `{"input":"`+strings.Repeat("x", 2<<20)+`"}`, nil)
			counts, err := w.store.Counts(t.Context())
			if err != nil || len(counts) != 1 || counts["onboard"][workflow.Running] < 5 {
				t.Errorf("%v %v", counts, err)
			}
		})
	}
}

// pages returns the known runs of all pages of two. After each page it starts a run, which no later page may have.
func (c caller) pages(query string, known map[string]string) (found string) {
	c.t.Helper()
	cursor := ""
	for {
		var page struct {
			Runs []runDoc
			Next string
		}
		c.do(200, "GET", "/onboard/runs?limit=2&"+query+cursor, "", &page)
		for _, r := range page.Runs {
			found += known[r.ID]
		}
		if len(page.Runs) > 2 {
			c.t.Errorf("a page has %d runs", len(page.Runs))
		}
		if page.Next == "" {
			return found
		}
		cursor = "&cursor=" + page.Next
		c.do(201, "POST", "/onboard/runs", `{"input":{"user":{"id":42,"late":true}}}`, nil)
	}
}
