package turnhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnhttp"
)

const page = "https://app.example.com"

// cross returns the headers of CORS, sorted.
func cross(h http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if what, ok := strings.CutPrefix(name, "Access-Control-"); ok {
			all = append(all, what+": "+strings.Join(h[name], "|"))
		}
	}
	return all
}

// Pages of the origins of the options may call every route and read each answer, a problem and a stream too. Other
// pages may not.
func TestOrigins(t *testing.T) {
	const exposed = "Expose-Headers: Allow, Location, Preference-Applied, Retry-After"
	mine := []string{"Allow-Origin: " + page, exposed}
	for _, c := range []struct {
		name        string
		origins     []string
		credentials bool
		from        string
		want        []string
	}{
		{"no option", nil, false, page, nil},
		{"listed", []string{"http://localhost:3000", page}, false, page, mine},
		{"with cookies", []string{page}, true, page, append([]string{"Allow-Credentials: true"}, mine...)},
		{"anyone", []string{"*"}, false, page, []string{"Allow-Origin: *", exposed}},
		{"another", []string{page}, true, "https://app.example.com.evil.example", nil},
		{"another port", []string{page}, true, page + ":8443", nil},
		{"another scheme", []string{page}, true, "http://app.example.com", nil},
		{"a file", []string{page}, true, "null", nil},
		{"no page", []string{page}, true, "", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			o := w.options()
			o.Origins, o.Credentials, o.MaxReaders = c.origins, c.credentials, 1
			h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
			for status, q := range map[int]request{
				200: routes["turn"], 201: with("turn", func(q *request) {
					q.key, q.header = "k2", map[string]string{"Accept": "text/event-stream"}
				}), 400: with("turn", func(q *request) { q.body = "{" }),
				403: with("session", func(q *request) { q.header = map[string]string{"Authorization": "other"} }),
				404: {method: "GET", path: "/nothing"}, 405: {method: "PUT", path: "/sessions/s"},
				204: with("events", func(q *request) { q.path = "/sessions/none/events" }),
			} {
				r := q.make(t.Context(), "")
				if c.from != "" {
					r.Header.Set("Origin", c.from)
				}
				res := sent(h, r)
				if stream := res.Header().Get("Content-Type") == "text/event-stream"; res.Code != status && !stream {
					t.Errorf("%s: %d, want %d", c.name, res.Code, status)
				}
				if got := cross(res.Header()); !slices.Equal(got, c.want) {
					t.Errorf("%s: a %d has %q, want %q", c.name, status, got, c.want)
				}
				vary := c.origins != nil && c.origins[0] != "*"
				if got := res.Header().Get("Vary"); (got == "Origin") != vary {
					t.Errorf("%s: Vary is %q", c.name, got)
				}
			}
			time.Sleep(time.Second)
		})
	}
}

// OPTIONS is answered for the paths that there are, and asks nobody who it is. Without Origins it is 405, as before.
func TestPreflight(t *testing.T) {
	asked := false
	handler := func(origins []string) http.Handler {
		w := newWorld()
		o := w.options()
		o.Origins = origins
		o.Security = map[string]any{"key": map[string]string{"type": "apiKey", "in": "header", "name": "X-Key"}}
		o.Authorize = func(*http.Request, string, turnhttp.Action) (turnhttp.Actor, error) {
			asked = true
			return "", nil
		}
		return turnhttp.Handler(w.bot(t, w.definition(), nil), o)
	}
	const headers = "Allow-Headers: Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Prefer, X-Key"
	for _, c := range []struct {
		origins    []string
		path, from string
		method     string
		status     int
		allow      string
		want       []string
	}{
		{[]string{page}, "/sessions/s", page, "DELETE", 204, "GET, HEAD, DELETE, OPTIONS", []string{
			headers, "Allow-Methods: GET, HEAD, DELETE", "Allow-Origin: " + page, "Max-Age: 600",
		}},
		{[]string{"*"}, "/sessions/s/turns", page, "POST", 204, "POST, OPTIONS", []string{
			headers, "Allow-Methods: POST", "Allow-Origin: *", "Max-Age: 600",
		}},
		{[]string{page}, "/sessions/s/turns", "https://evil.example", "POST", 204, "POST, OPTIONS", nil},
		{[]string{page}, "/sessions/s/turns", "", "", 204, "POST, OPTIONS", nil},
		{nil, "/sessions/s/turns", page, "POST", 405, "POST", nil},
	} {
		r := request{method: "OPTIONS", path: c.path}.make(t.Context(), "")
		if c.from != "" {
			r.Header.Set("Origin", c.from)
		}
		if c.method != "" {
			r.Header.Set("Access-Control-Request-Method", c.method)
			r.Header.Set("Access-Control-Request-Headers", "content-type, x-evil")
		}
		res := sent(handler(c.origins), r)
		if res.Code != c.status || res.Header().Get("Allow") != c.allow || !slices.Equal(cross(res.Header()), c.want) {
			t.Errorf("%v %s from %q: %d, %q, %q", c.origins, c.path, c.from, res.Code, res.Header().Get("Allow"),
				cross(res.Header()))
		}
	}
	res := request{method: "OPTIONS", path: "/nothing"}.to(t.Context(), handler([]string{page}))
	if res.Code != 404 || typeOf(res.Body.Bytes()) != "not-found" {
		t.Errorf("OPTIONS of no route is %d %s", res.Code, res.Body)
	}
	if asked {
		t.Error("Authorize is asked for OPTIONS")
	}
}

// Options that cannot be meant are refused when the handler is made.
func TestOptionsOfSite(t *testing.T) {
	w := newWorld()
	bot := w.bot(t, w.definition(), nil)
	for name, change := range map[string]func(*turnhttp.Options[State]){
		"any page, with cookies": func(o *turnhttp.Options[State]) { o.Origins, o.Credentials = []string{page, "*"}, true },
		"no origin":              func(o *turnhttp.Options[State]) { o.Origins = []string{""} },
		"null":                   func(o *turnhttp.Options[State]) { o.Origins = []string{"null"} },
		"a host":                 func(o *turnhttp.Options[State]) { o.Origins = []string{"app.example.com"} },
		"a path":                 func(o *turnhttp.Options[State]) { o.Origins = []string{page + "/"} },
		"capitals":               func(o *turnhttp.Options[State]) { o.Origins = []string{"https://App.example.com"} },
		"a relative base":        func(o *turnhttp.Options[State]) { o.ProblemBase = "/errors/" },
		"a base without its end": func(o *turnhttp.Options[State]) { o.ProblemBase = page + "/errors" },
		"a scheme that is text":  func(o *turnhttp.Options[State]) { o.Security = map[string]any{"a": "bearer"} },
		"a scheme of no JSON":    func(o *turnhttp.Options[State]) { o.Security = map[string]any{"a": func() {}} },
	} {
		o := w.options()
		change(&o)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Handler takes %s", name)
				}
			}()
			turnhttp.Handler(bot, o)
		}()
	}
}

// Problems have absolute types if the options say so, in documents and in events. The OpenAPI document has the same.
func TestProblemBase(t *testing.T) {
	const base = "https://example.com/errors#"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		o.ProblemBase = base
		o.Security = map[string]any{
			"bearer": map[string]string{"type": "http", "scheme": "bearer"},
			"cookie": map[string]string{"type": "apiKey", "in": "cookie", "name": "sid"},
		}
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
		doc, err := openapitest.New(request{method: "GET", path: "/openapi.json"}.to(t.Context(), h).Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		doc.Stream = func(schema any, body []byte) error { return validEvents(doc, schema, body) }
		for _, err := range doc.Faults() {
			t.Error(err)
		}
		if got, _ := json.Marshal(doc.Root["security"]); string(got) != `[{"bearer":[]},{"cookie":[]}]` {
			t.Errorf("security is %s", got)
		}
		open, _ := doc.At(doc.Root, "paths", "/openapi.json", "get").(map[string]any)
		if none, ok := open["security"].([]any); !ok || len(none) > 0 {
			t.Errorf("the document needs %v", open["security"])
		}
		if s := doc.At(doc.Root, "components", "securitySchemes", "bearer", "scheme"); s != "bearer" {
			t.Errorf("the scheme is %v", s)
		}
		for kind, q := range map[string]request{
			"not-found": {method: "GET", path: "/sessions/s/turns/none"},
			"denied":    with("session", func(q *request) { q.header = map[string]string{"Authorization": "other"} }),
			"bot-failed": with("turn", func(q *request) {
				q.body, q.header = `{"message":"fail"}`, map[string]string{"Accept": "text/event-stream"}
			}),
		} {
			res := q.to(t.Context(), h)
			body := res.Body.Bytes()
			if !strings.Contains(string(body), `"type":"`+base+kind+`"`) || strings.Contains(string(body), "/problems/") {
				t.Errorf("%s: %s", kind, body)
			}
			if err := doc.Check(q.method, q.path, res.Code, res.Header().Get("Content-Type"), body); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}

// A page of another origin talks with the bot. The browser asks first what it may send.
func ExampleOptions_origins() {
	type State struct{}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "silent",
		Intents: orchestrator.Intents[State]{"say": {Run: func(context.Context, *orchestrator.Turn[State]) error {
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize:   turnhttp.Anyone,
		Reply:       func(*orchestrator.Result[State]) any { return nil },
		Origins:     []string{"https://app.example.com"},
		ProblemBase: "https://example.com/problems/",
	})
	for _, origin := range []string{"https://app.example.com", "https://evil.example"} {
		r, _ := http.NewRequest("OPTIONS", "/sessions/s/turns", http.NoBody)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		w := sent(h, r)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Access-Control-Allow-Origin"))
	}
	// Output:
	// 204 "https://app.example.com"
	// 204 ""
}
