package workflowhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

const (
	runs   = "/v1/workflows/refund/runs"
	ofR    = runs + "/r"
	topics = "/v1/topics/user.%2A/subscriptions"
)

// routes has a good request of each route that asks Authorize.
var routes = map[string]request{
	"index":         get("/v1/workflows"),
	"start":         post(runs, `{"input":{"order":"B-7"}}`),
	"list":          get(runs + "?status=running&since=2020-01-01&until=2100-01-01T00:00:00Z&limit=5&input.cents=100"),
	"get":           get(ofR),
	"cancel":        {method: "DELETE", path: ofR},
	"pause":         post(ofR+"/pause", ""),
	"resume":        post(ofR+"/resume", ""),
	"signal":        post(ofR+"/signals/decision", `{"by":"ada","approve":true}`),
	"steps":         get(ofR + "/steps"),
	"subscribe":     post(topics, `{"id":"s2","type":"http","url":"https://example.com/hook"}`),
	"subscriptions": get(topics),
	"unsubscribe":   {method: "DELETE", path: topics + "/s"},
	"publish":       post("/v1/topics/user.signup/messages", `{"email":"a@b.c"}`),
}

// A handlerCase is a request and what it is answered.
type handlerCase struct {
	name string
	request
	status int
	kind   string // of the problem
	says   string // in its detail, or in the body of another answer
	fault  func() error
}

// The bodies that are no body of a start, and the type of their problem.
var badStarts = map[string]string{
	``:                                   "bad-request",
	` `:                                  "bad-request",
	`{`:                                  "bad-request",
	`null`:                               "bad-request",
	`[]`:                                 "bad-request",
	`"input"`:                            "bad-request",
	`{} {}`:                              "bad-request",
	`{}hunter2`:                          "bad-request",
	`{"hunter2":1}`:                      "bad-request",
	`{"Input":1}`:                        "bad-request",
	`{"input":"\u0000"}`:                 "bad-request",
	`{"input":"\ud800"}`:                 "bad-request",
	"{\"input\":\"\xff\"}":               "bad-request",
	`{"input":` + nested(2000) + `}`:     "bad-request",
	`{"input":1e9999999}`:                "bad-request",
	`{"version":"1"}`:                    "bad-request",
	`{"version":1.5}`:                    "bad-request",
	`{"retentionDays":[]}`:               "bad-request",
	`{"delaySeconds":"1h"}`:              "bad-request",
	`{"debounce":"yes"}`:                 "bad-request",
	`{"debounce":true}`:                  "invalid", // without a key
	`{"group":7}`:                        "bad-request",
	`{"idempotencyKey":7}`:               "bad-request",
	`{"version":-1}`:                     "invalid",
	`{"version":2000000000}`:             "invalid",
	`{"retentionDays":-1}`:               "invalid",
	`{"delaySeconds":-0.5}`:              "invalid",
	`{"delaySeconds":1e300}`:             "invalid",
	`{"delaySeconds":40000000}`:          "invalid",
	`{"idempotencyKey":"` + long + `"}`:  "invalid",
	`{"input":"` + ofSize(1<<20) + `"}`:  "invalid", // with its quotes it is above workflow.MaxValue
	`{"input":"` + ofSize(2<<20) + `"}`:  "too-large",
	`{"idempotencyKey":"A-1042"}`:        "key-reused",
	`{"input":1,"idempotencyKey":"dup"}`: "",
}

var long = ofSize(513)

func ofSize(n int) string { return strings.Repeat("x", n) }

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Queries that are none of a list.
var badQueries = map[string]string{
	"status=done":                          "invalid",
	"status=":                              "", // as good as none
	"since=yesterday":                      "bad-request",
	"since=2026-05-01T12:00":               "bad-request",
	"until=1748779200":                     "bad-request",
	"limit=0":                              "bad-request",
	"limit=501":                            "bad-request",
	"limit=-1":                             "bad-request",
	"limit=ten":                            "bad-request",
	"cursor=hunter2":                       "bad-request",
	"cursor=!":                             "bad-request",
	"cursor=" + cursor(``):                 "bad-request",
	"cursor=" + cursor(`x.`):               "invalid",
	"cursor=" + cursor(`0.`+long):          "invalid",
	"cursor=" + cursor(`-1y2p0ij32e8e7.r`): "invalid",
	"sort=started":                         "bad-request",
	"Status=running":                       "bad-request",
	"status=failed&status=failed":          "bad-request",
	"input=1":                              "bad-request",
	"input.=1":                             "bad-request",
	"input.a.=1":                           "bad-request",
	"input.a=1&input.a=2":                  "bad-request",
	"input.a=1&input.a.b=2":                "bad-request",
	"input.a=%ff":                          "bad-request",
	"input.a=%00":                          "invalid",
	"input.a=" + nested(1001):              "invalid",
	"input.a=%zz":                          "bad-request",
	"a;b":                                  "bad-request",
}

func handlerCases() (all []handlerCase) {
	add := func(name string, q request, status int, kind, says string) {
		all = append(all, handlerCase{name, q, status, kind, says, nil})
	}
	for name, q := range routes {
		status := map[string]int{"start": 201, "subscribe": 201, "unsubscribe": 204}[name]
		add(name, q, max(status, 200), "", "")
		add(name+" by a stranger", q.with("Authorization", "wrong"), 401, "unauthorized", "")
		add(name+" by another", q.with("Authorization", "other"), 403, "denied", "")
		add(name+" where Authorize panics", q.with("Authorization", "panic"), 500, "internal", "")
		slow, large := q, q
		slow.slow, large.body = true, `{"input":"`+ofSize(2<<20)+`"}`
		add(name+" that is slow", slow, 408, "slow-request", "")
		add(name+" above MaxBody", large, 413, "too-large", "")
		for kind, status := range map[string]int{"unavailable": 503, "timeout": 504, "internal": 500} {
			all = append(all, handlerCase{name + " of a store that is " + kind, q, status, kind, "", faults[kind]})
		}
		breaks := func() error { panic(secret) }
		all = append(all, handlerCase{name + " of a store that panics", q, 500, "internal", "", breaks})
		if q.method == "POST" {
			add(name+" as a form", q.with("Content-Type", "text/plain"), 415, "content-type", "application/json")
		}
	}
	for body, kind := range badStarts {
		add(fmt.Sprintf("start with %.40q", body), post(runs, body), statusOf[kind], kind, "")
	}
	for query, kind := range badQueries {
		add(fmt.Sprintf("list by %.40q", query), get(runs+"?"+query), listStatus[kind], kind, "")
	}
	return append(all, named...)
}

var statusOf = map[string]int{"": 201, "bad-request": 400, "invalid": 422, "too-large": 413, "key-reused": 409}

var listStatus = map[string]int{"": 200, "bad-request": 400, "invalid": 422}

var faults = map[string]func() error{
	"unavailable": func() error { return fmt.Errorf("%s: %w", secret, workflow.ErrRefused) },
	"timeout":     func() error { return fmt.Errorf("%s: %w", secret, context.DeadlineExceeded) },
	"internal":    func() error { return fmt.Errorf("%s: %w", secret, workflow.ErrSchema) },
}

// named are cases of single routes.
var named = []handlerCase{
	{"start again", post(runs, `{"input":{"order":"A-1042","cents":1e2},"idempotencyKey":"A-1042"}`), 200, "", `"id":"r"`, nil},
	{"start again by header", post(runs, `{"input":{"cents":100,"order":"A-1042"}}`).with("Idempotency-Key", "A-1042"), 200, "", `"id":"r"`, nil},
	{"start again by a quoted header", post(runs, `{"input":{"cents":100,"order":"A-1042"}}`).with("Idempotency-Key", `"A-1042"`), 200, "", `"id":"r"`, nil},
	{"start with half a quoted header", post(runs, `{}`).with("Idempotency-Key", `"A-1042`), 400, "bad-request", "in quotes", nil},
	{"signal with a quoted key", post(ofR+"/signals/other", `{}`).with("Idempotency-Key", `"k"`), 202, "", `"receipt":"kept","signal":"k"`, nil},
	{"publish again by a quoted id", post("/v1/topics/user.deleted/messages", `1`).with("Idempotency-Key", `"m"`), 200, "", `"new":false`, nil},
	{"start with all", post(runs, `{"input":null,"version":3,"idempotencyKey":"k","retentionDays":9,"delaySeconds":1.5}`).with("Idempotency-Key", "k"), 201, "", `"version":3`, nil},
	{"start in a group", post(runs, `{"input":1,"idempotencyKey":"d","group":"g","debounce":true,"delaySeconds":60}`), 201, "", `"new":true`, nil},
	{"start with two keys", post(runs, `{"idempotencyKey":"a"}`).with("Idempotency-Key", "b"), 400, "bad-request", "differ", nil},
	{"start with an empty key", post(runs, `{}`).with("Idempotency-Key", ""), 400, "bad-request", "Idempotency-Key", nil},
	{"start with an unknown member", post(runs, `{"colour":1}`), 400, "bad-request", "The member colour is not known. The body may have these members: input,", nil},
	{"list by an unknown parameter", get(runs + "?sort=started"), 400, "bad-request", "The parameter sort is not known. The parameters are status,", nil},
	{"start a name", post("/v1/workflows/Refund/runs", `{}`), 422, "invalid", "a name is 1 to 48", nil},
	{"start a long name", post("/v1/workflows/"+ofSize(49)+"/runs", `{}`), 422, "invalid", "a name is 1 to 48", nil},
	{"start no name", post("/v1/workflows//runs", `{}`), 422, "invalid", "a name is 1 to 48", nil},
	{"start a name of many bytes", post("/v1/workflows/%FF/runs", `{}`), 422, "invalid", "a name is 1 to 48", nil},
	{"list a name", get("/v1/workflows/%00/runs"), 422, "invalid", "", nil},
	{"list of no runs", get("/v1/workflows/other/runs"), 200, "", `{"runs":[]}`, nil},
	{"get none", get(runs + "/none"), 404, "not-found", "", nil},
	{"get of another workflow", get("/v1/workflows/other/runs/r"), 404, "not-found", "", nil},
	{"get a long id", get(runs + "/" + long), 422, "invalid", "run", nil},
	{"cancel none", request{method: "DELETE", path: runs + "/none"}, 404, "not-found", "", nil},
	{"cancel of another workflow", request{method: "DELETE", path: "/v1/workflows/other/runs/r"}, 404, "not-found", "", nil},
	{"cancel no id", request{method: "DELETE", path: runs + "/"}, 422, "invalid", "empty run", nil},
	{"cancel again", request{method: "DELETE", path: runs + "/over"}, 200, "", `"receipt":"over"`, nil},
	{"pause none", post(runs+"/none/pause", ""), 404, "not-found", "", nil},
	{"pause no id", post(runs+"/%00/pause", ""), 422, "invalid", "", nil},
	{"pause of another workflow", post("/v1/workflows/other/runs/r/pause", ""), 404, "not-found", "", nil},
	{"pause what is over", post(runs+"/over/pause", ""), 409, "over", "", nil},
	{"resume none", post(runs+"/none/resume", ""), 404, "not-found", "", nil},
	{"resume no id", post(runs+"/%00/resume", ""), 422, "invalid", "", nil},
	{"resume what is over", post(runs+"/over/resume", ""), 409, "over", "", nil},
	{"signal that waits", post(ofR+"/signals/other", `{}`).with("Idempotency-Key", "k"), 202, "", `"receipt":"kept","signal":"k"`, nil},
	{"signal that does not match", post(ofR+"/signals/decision", `{"by":"bob"}`), 202, "", "kept", nil},
	{"signal without a body", post(ofR+"/signals/other", ""), 202, "", "kept", nil},
	{"signal that is consumed", routes["signal"], 200, "", "consumed", nil},
	{"signal with a bad body", post(ofR+"/signals/decision", `{"by":`), 400, "bad-request", "no JSON", nil},
	{"signal with two bodies", post(ofR+"/signals/decision", `1 2`), 400, "bad-request", "behind", nil},
	{"signal with a long key", post(ofR+"/signals/decision", `1`).with("Idempotency-Key", long), 400, "bad-request", "Idempotency-Key", nil},
	{"signal with a large payload", post(ofR+"/signals/decision", `"`+ofSize(1<<20)+`"`), 422, "invalid", "payload", nil},
	{"signal of no event", post(ofR+"/signals/", `1`), 422, "invalid", "event", nil},
	{"signal of every event", post(ofR+"/signals/*", `1`), 422, "invalid", "event", nil},
	{"signal to none", post(runs+"/none/signals/decision", `1`), 404, "not-found", "", nil},
	{"signal to another workflow", post("/v1/workflows/other/runs/r/signals/decision", `1`), 404, "not-found", "", nil},
	{"signal what is over", post(runs+"/over/signals/decision", `1`), 409, "over", "", nil},
	{"steps of none", get(runs + "/none/steps"), 404, "not-found", "", nil},
	{"steps of no id", get(runs + "/%00/steps"), 422, "invalid", "", nil},
	{"steps of a run without any", get(runs + "/over/steps"), 200, "", `{"steps":[]}`, nil},
	{"define", post("/v1/workflows", `{"name":"refund"}`), 405, "method", "", nil},
	{"define by name", request{method: "PUT", path: "/v1/workflows/refund", body: `{}`}, 405, "method", "", nil},
	{"delete a run", request{method: "PURGE", path: ofR}, 405, "method", "", nil},
	{"another route", get("/v1/nothing"), 404, "not-found", "", nil},
	{"another prefix", get("/v2/workflows"), 404, "not-found", "", nil},
	{"no prefix", get("/"), 404, "not-found", "", nil},
	{"a path more", get(ofR + "/steps/pay"), 404, "not-found", "", nil},
	{"document", get("/v1/openapi.json"), 200, "", "3.1.0", nil},
	{"subscribe a workflow", post(topics, `{"type":"workflow","name":"welcome"}`), 201, "", `"name":"welcome"`, nil},
	{"subscribe a session", post(topics, `{"type":"session","session":"customer-7"}`), 201, "", `"session":"customer-7"`, nil},
	{"subscribe again", post(topics, `{"id":"s","type":"workflow","name":"refund"}`), 201, "", `"id":"s"`, nil},
	{"subscribe by a key", post(topics, `{"type":"workflow","name":"refund"}`).with("Idempotency-Key", "mine"), 201, "", `"id":"mine"`, nil},
	{"subscribe by a bad key", post(topics, `{"type":"workflow","name":"refund"}`).with("Idempotency-Key", "a/b"), 422, "invalid", "an id is", nil},
	{"subscribe another", post(topics, `{"id":"s","type":"workflow","name":"welcome"}`), 409, "key-reused", "", nil},
	{"subscribe nothing", post(topics, `{}`), 400, "bad-request", "The type is", nil},
	{"subscribe a queue", post(topics, `{"type":"queue","name":"q"}`), 400, "bad-request", "The type is", nil},
	{"subscribe two", post(topics, `{"type":"workflow","name":"w","url":"https://example.com"}`), 400, "bad-request", "The type is", nil},
	{"subscribe a number", post(topics, `{"type":"workflow","name":7}`), 400, "bad-request", "name", nil},
	{"subscribe a file", post(topics, `{"type":"http","url":"file:///etc/passwd"}`), 422, "invalid", "http://", nil},
	{"subscribe with a password", post(topics, `{"type":"http","url":"https://u:hunter2@example.com"}`), 422, "invalid", "no user", nil},
	{"subscribe a bad name", post(topics, `{"type":"workflow","name":"W"}`), 422, "invalid", "a name is", nil},
	{"subscribe to a bad pattern", post("/v1/topics/user..x/subscriptions", `{"type":"workflow","name":"w"}`), 422, "invalid", "segments", nil},
	{"subscriptions of a bad pattern", get("/v1/topics/%20/subscriptions"), 422, "invalid", "segments", nil},
	{"subscriptions of another pattern", get("/v1/topics/%23/subscriptions"), 200, "", `{"subscriptions":[]}`, nil},
	{"unsubscribe none", request{method: "DELETE", path: topics + "/none"}, 204, "", "", nil},
	{"unsubscribe of another pattern", request{method: "DELETE", path: "/v1/topics/%23/subscriptions/s"}, 404, "not-found", "", nil},
	{"unsubscribe no id", request{method: "DELETE", path: topics + "/"}, 422, "invalid", "an id is", nil},
	{"publish to a pattern", post("/v1/topics/user.%2A/messages", `1`), 422, "invalid", "segments", nil},
	{"publish what is no JSON", post("/v1/topics/user.signup/messages", `{`), 400, "bad-request", "no JSON", nil},
	{"publish a long id", post("/v1/topics/user.signup/messages", `1`).with("Idempotency-Key", ofSize(257)), 422, "invalid", "an id is 1 to 256", nil},
	{"publish again", post("/v1/topics/user.deleted/messages", `1`).with("Idempotency-Key", "m"), 200, "", `"new":false`, nil},
	{"publish another", post("/v1/topics/user.deleted/messages", `2`).with("Idempotency-Key", "m"), 409, "key-reused", "", nil},
	{"publish to nobody", post("/v1/topics/order.paid/messages", `1`), 200, "", `"runs":[]`, nil},
	{"publish to one", post("/v1/topics/user.signup/messages", ``), 200, "", `"new":true`, nil},
}

// Each route answers each request with its status and its type, and nothing of what an error says. What is refused
// stores nothing. The OpenAPI document has all of these.
func TestHandler(t *testing.T) {
	doc := openAPI(t, nil)
	cases := handlerCases()
	refused := 0
	for _, c := range cases {
		if c.status >= 400 && c.status < 500 && c.status != 401 && c.status != 403 {
			refused++
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, doc) })
	}
	t.Logf("%d requests, and %d of them are bad input", len(cases), refused)
	for _, at := range doc.Unseen() {
		// The topics of a handler without Options.Subscriptions are 404: see TestOptions.
		if !strings.Contains(at, "/topics/") || !strings.HasSuffix(at, " 404") {
			t.Errorf("no case has %s", at)
		}
	}
}

func (c handlerCase) run(t *testing.T, doc *openapitest.Document) {
	w := newWorld(t)
	before := w.dump(t)
	h := w.handler()
	w.fault = c.fault
	res := c.to(t.Context(), h)
	body := res.Body.Bytes()
	if res.Code != c.status || typeOf(body) != c.kind {
		t.Fatalf("%d %s, want %d %s\n%.300s", res.Code, typeOf(body), c.status, c.kind, body)
	}
	path, inside := strings.CutPrefix(c.path, "/v1")
	if err := doc.Check(c.method, path, res.Code, res.Header().Get("Content-Type"), body); inside && err != nil {
		t.Errorf("OpenAPI: %v\n%.300s", err, body)
	}
	if p := string(body); !strings.Contains(p, c.says) || c.kind == "bad-request" && !strings.Contains(p, `"detail"`) {
		t.Errorf("it says %.300s, want %q", p, c.says)
	}
	if c.status >= 400 && w.dump(t) != before {
		t.Errorf("it has stored something: %s", w.dump(t))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if logged := strings.Count(w.logs.String(), "\n"); (logged == 1) != (c.status >= 500) || logged > 1 {
		t.Errorf("it logs %q", w.logs.String())
	}
	if strings.Contains(string(body)+fmt.Sprint(res.Header()), secret) && !strings.Contains(c.body+c.path, secret) {
		t.Errorf("the response says too much:\n%s", body)
	}
	c.wantHeaders(t, res.Header())
}

func (c handlerCase) wantHeaders(t *testing.T, h http.Header) {
	t.Helper()
	if h.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("browsers may guess the type")
	}
	if h.Get("Cache-Control") != "no-store" && !strings.HasSuffix(c.path, "/openapi.json") {
		t.Error("caches may keep it")
	}
	if _, ok := h["Allow"]; c.status == http.StatusMethodNotAllowed && !ok {
		t.Error("405 without Allow")
	}
	if (c.status == 503 || c.status == 504) && h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if c.status == 201 && strings.HasSuffix(c.path, "/runs") && !strings.HasPrefix(h.Get("Location"), runs+"/") {
		t.Errorf("Location is %q", h.Get("Location"))
	}
}

// Without Options.Subscriptions there are no topics, and without an Authorize there is no handler.
func TestOptions(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Subscriptions = nil
	for _, name := range []string{"subscribe", "subscriptions", "unsubscribe", "publish"} {
		if res := routes[name].to(t.Context(), workflowhttp.New(w, o)); res.Code != http.StatusNotFound {
			t.Errorf("%s without Subscriptions is %d", name, res.Code)
		}
	}
	for prefix, path := range map[string]string{"/": "/workflows", "/api/x/": "/api/x/workflows", "": "/v1/workflows"} {
		o.Prefix = prefix
		if res := get(path).to(t.Context(), workflowhttp.New(w, o)); res.Code != http.StatusOK {
			t.Errorf("%s under the prefix %q is %d", path, prefix, res.Code)
		}
	}
	for name, o := range map[string]*workflowhttp.Options{
		"nil": nil, "no Authorize": {}, "a bad prefix": {Authorize: workflowhttp.HeaderPresent, Prefix: "v1"},
	} {
		if !panics(func() { workflowhttp.New(w, o) }) {
			t.Errorf("New takes %s", name)
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// What a store says of a call is told by its kind, and never by its text. What no store has decided may have happened.
func TestErrorsOfStores(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{errors.New(secret), 503, `"retryable":true`},
		{workflow.ErrRefused, 503, `"retryable":true`},
		{workflow.ErrInvalid, 422, "A value of the request is not taken."},
		{workflow.ErrSubscriptions, 422, "there are 1000 subscriptions"},
		{workflow.ErrKeyReused, 409, "key-reused"},
		{workflow.ErrNotFound, 404, "not-found"},
		{workflow.ErrSchema, 500, "internal"},
		{workflow.ErrDamaged, 500, "internal"},
		{workflow.ErrAborted, 500, "internal"},
		{context.DeadlineExceeded, 504, "timeout"},
	} {
		w := newWorld(t)
		w.fault = func() error { return fmt.Errorf("%s: %w", secret, c.err) }
		res := routes["subscribe"].to(t.Context(), w.handler())
		body := res.Body.String()
		if res.Code != c.status || !strings.Contains(body, c.says) || strings.Contains(body, secret) {
			t.Errorf("%v is %d %s, want %d %s", c.err, res.Code, body, c.status, c.says)
		}
	}
}

// A client that has gone is 499, and not logged as a failure.
func TestClientGone(t *testing.T) {
	w := newWorld(t)
	w.fault = func() error { return errors.Join(errors.New(secret), context.Canceled) }
	if res := routes["get"].to(t.Context(), w.handler()); res.Code != 499 || w.logs.Len() > 0 {
		t.Errorf("it is %d, and logs %q", res.Code, w.logs.String())
	}
}
