package turnhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Status and Problem say what orchestrator.Public says.
func TestProblem(t *testing.T) {
	doubt := &orchestrator.InDoubtError{RunID: "r", Effects: []string{"e1", "e2"}, Ask: true}
	for _, c := range []struct {
		err    error
		status int
		doc    string
	}{
		{errors.New(secret), 500, `{"type":"/problems/internal","title":"Something went wrong.","status":500}`},
		{fmt.Errorf("%s: %w", secret, turnhttp.ErrDenied), 403, `{"type":"/problems/denied","title":"The client may not do this.","status":403}`},
		{
			&orchestrator.Error{Op: "intent", RunID: "r", Err: fmt.Errorf("%s: %w", secret, turnhttp.ErrDenied)}, 502,
			`{"type":"/problems/bot-failed","title":"The bot could not answer.","status":502,"run":"r"}`,
		},
		{
			&orchestrator.Error{Op: "input", Err: &orchestrator.InputError{Field: "text", Reason: "empty"}}, 422,
			`{"type":"/problems/invalid","title":"The input cannot be taken.","status":422,"detail":"text: empty"}`,
		},
		{
			&orchestrator.Error{Op: "intent", RunID: "r", Err: fmt.Errorf("%w: %w", orchestrator.ErrSuspended, doubt)},
			202,
			`{"type":"/problems/suspended","title":"A person has to answer before this goes on.","status":202,"run":"r",` +
				`"effects":["e1","e2"]}`,
		},
		{
			&orchestrator.Error{Op: "settle", RunID: "r", Err: orchestrator.ErrIndeterminate}, 504,
			`{"type":"/problems/unknown-outcome",` +
				`"title":"It is not known yet how this ends. Send the same request again.","status":504,"run":"r","retryable":true}`,
		},
	} {
		w := httptest.NewRecorder()
		turnhttp.Problem(w, httptest.NewRequest(http.MethodGet, "/", nil), c.err)
		doc := strings.TrimSpace(w.Body.String())
		if doc != c.doc || w.Code != c.status || turnhttp.Status(c.err) != c.status {
			t.Errorf("%v: %d %s", c.err, w.Code, doc)
		}
		if kind := w.Header().Get("Content-Type"); kind != "application/problem+json" {
			t.Errorf("%v: %s", c.err, kind)
		}
		if retry := w.Header().Get("Retry-After"); (retry != "") != (c.status == 504) {
			t.Errorf("%v: Retry-After is %q", c.err, retry)
		}
	}
	if turnhttp.Status(nil) != 200 {
		t.Errorf("no error is %d", turnhttp.Status(nil))
	}
}

// An option without a default is missed when the program starts, not when a client comes.
func TestHandlerPanics(t *testing.T) {
	w := newWorld()
	bot := w.bot(t, w.definition(), nil)
	for what, change := range map[string]func(*turnhttp.Options[State]){
		"Authorize": func(o *turnhttp.Options[State]) { o.Authorize = nil },
		"Reply":     func(o *turnhttp.Options[State]) { o.Reply = nil },
		"Inbox":     func(o *turnhttp.Options[State]) { o.Inbox = nil },
		"Answer":    func(o *turnhttp.Options[State]) { o.Answer = nil },
	} {
		o := w.options()
		change(&o)
		func() {
			defer func() {
				if said := recover(); said == nil || !strings.Contains(fmt.Sprint(said), what) {
					t.Errorf("without %s: %v", what, said)
				}
			}()
			turnhttp.Handler(bot, o)
		}()
	}
}

// A session and a question may have any name. Under a prefix the routes are the same.
func TestNames(t *testing.T) {
	w := newWorld()
	h := http.NewServeMux()
	h.Handle("/bot/", http.StripPrefix("/bot", turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())))
	for i, session := range []string{"a/b", "..", "/", "a//b", "%2F", "é ?#", "s" + strings.Repeat("x", 511)} {
		path := "/bot/sessions/" + escape(session)
		q := request{method: "POST", path: path + "/turns", key: "k", body: `{"message":"ask q/1 2"}`}
		if res := q.to(t.Context(), h); res.Code != 200 {
			t.Errorf("%q: the turn is %d %s", session, res.Code, res.Body)
		}
		sum := sumOf(session, "q/1", map[string]int{"cents": 2})
		q = request{method: "POST", path: path + "/questions/q%2F1", body: fmt.Sprintf(`{"answer":"answer yes","sum":%q}`, sum)}
		res := q.to(t.Context(), h)
		if turn := decode[turnOf](t, res.Body.Bytes()); res.Code != 200 || turn.Turn != 1 {
			t.Errorf("%q: the answer is %d %s", session, res.Code, res.Body)
		}
		res = request{method: "GET", path: path}.to(t.Context(), h)
		if doc := decode[struct{ Session string }](t, res.Body.Bytes()); doc.Session != session {
			t.Errorf("%q: session %d is %q", session, i, doc.Session)
		}
	}
}

// No path is cleaned, and no request is sent elsewhere: a redirect would not know what the program has stripped. What a
// mux of the program has found in the path is there for Authorize.
func TestPaths(t *testing.T) {
	w := newWorld()
	o := w.options()
	authorize, tenant := o.Authorize, ""
	o.Authorize = func(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) {
		tenant = r.PathValue("tenant")
		return authorize(r, session, action)
	}
	inner, h := turnhttp.Handler(w.bot(t, w.definition(), nil), o), http.NewServeMux()
	h.HandleFunc("/{tenant}/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/"+r.PathValue("tenant"), inner).ServeHTTP(w, r)
	})
	res := request{method: "GET", path: "/acme/sessions/s"}.to(t.Context(), h)
	if res.Code != 200 || tenant != "acme" {
		t.Errorf("the tenant is %q: %d %s", tenant, res.Code, res.Body)
	}
	for _, c := range []struct {
		method, path string
		status       int
		allow, kind  string
	}{
		{"GET", "/sessions/..", 200, "", ""},
		{"GET", "/sessions/.", 200, "", ""},
		{"GET", "sessions/s", 200, "", ""},
		{"HEAD", "/sessions/s", 200, "", ""},
		{"POST", "/sessions//turns", 400, "", "bad-request"},
		{"GET", "/sessions/", 400, "", "bad-request"},
		{"GET", "/sessions/s/", 404, "", "not-found"},
		{"GET", "//sessions/s", 404, "", "not-found"},
		{"GET", "/sessions/s/../s", 404, "", "not-found"},
		{"GET", "/", 404, "", "not-found"},
		{"OPTIONS", "/sessions/s", 405, "GET, HEAD, DELETE", "method"},
		{"PUT", "/openapi.json", 405, "GET, HEAD", "method"},
		{"GET", "/sessions/a%2Fb/turns", 405, "POST", "method"},
	} {
		r := httptest.NewRequest(c.method, "/", http.NoBody)
		at, err := url.Parse("http://h" + c.path)
		if !strings.HasPrefix(c.path, "/") { // as after http.StripPrefix("/bot/", …)
			at, err = &url.URL{Path: c.path}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		r.URL = at
		r.Header.Set("Content-Type", "application/json")
		res := sent(inner, r)
		if res.Code != c.status || res.Header().Get("Allow") != c.allow || typeOf(res.Body.Bytes()) != c.kind {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, res.Code, res.Header(), res.Body)
		}
	}
}

// escape escapes each byte of a name.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		fmt.Fprintf(&b, "%%%02X", name[i])
	}
	return b.String()
}

// The pages of a session have each turn once.
func TestSessionPages(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	for i := range 5 {
		q := says(fmt.Sprintf("say %d", i))
		q.key = fmt.Sprint(i)
		q.to(t.Context(), h)
	}
	before, seen := "", ""
	for {
		res := request{method: "GET", path: "/sessions/s?limit=2" + before}.to(t.Context(), h)
		doc := decode[struct {
			Turn  int
			Turns []turnOf
			More  bool
		}](t, res.Body.Bytes())
		for _, turn := range doc.Turns {
			seen += turn.Reply
			before = fmt.Sprintf("&before=%d", turn.Turn)
		}
		if doc.Turn != 4 || len(doc.Turns) == 0 || len(doc.Turns) > 2 {
			t.Fatalf("a page is %s", res.Body)
		}
		if !doc.More {
			break
		}
	}
	if seen != "43210" {
		t.Errorf("the pages have %s", seen)
	}
}
