package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A cookie that was changed, is too old, or was signed with another key, names nobody.
func TestSigner(t *testing.T) {
	t.Parallel()
	who := func(c *http.Cookie) (person, error) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(c)
		return people.who(r)
	}
	signed := func(s *signer, p person) *http.Cookie {
		return s.cookie(httptest.NewRequest(http.MethodGet, "/", nil), p)
	}
	ada := person{"ada.aaaaaaaaaaaa", roleCustomer, time.Now().Add(time.Hour).UTC()}
	good := signed(people, ada)
	if p, err := who(good); err != nil || p != ada {
		t.Errorf("%+v, %v", p, err)
	}
	if !good.HttpOnly || good.SameSite != http.SameSiteStrictMode || good.Path != "/" || good.Secure {
		t.Errorf("%+v", good)
	}
	over := httptest.NewRequest(http.MethodGet, "https://bot.example/", nil)
	if !people.cookie(over, ada).Secure {
		t.Error("the cookie of https goes over http too")
	}
	text, signature, _ := strings.Cut(good.Value, ".")
	boss, old := ada, ada
	boss.Role, old.Until = roleDesk, time.Now().Add(-time.Second)
	doc, err := json.Marshal(boss)
	if err != nil {
		t.Fatal(err)
	}
	moved := signed(people, ada)
	moved.Name = cookieOf(roleDesk)
	for name, c := range map[string]*http.Cookie{
		"changed":       {Name: cookieOf(roleDesk), Value: base64.RawURLEncoding.EncodeToString(doc) + "." + signature},
		"no signature":  {Name: good.Name, Value: text},
		"half of it":    {Name: good.Name, Value: good.Value[:len(good.Value)-4]},
		"another key":   signed(&signer{key: []byte("the key of somebody else")}, boss),
		"too old":       signed(people, old),
		"of other role": moved,
		"empty":         {Name: good.Name},
	} {
		if p, err := who(c); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// What is not allowed by name is refused.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(signed(people, boss))
	for _, action := range []turnhttp.Action{turnhttp.ActionForce, turnhttp.ActionUnpark, "sing"} {
		if by, err := people.authorize(r, "ada-1", action); err == nil {
			t.Errorf("%s by %s", action, by)
		}
	}
}

// A request is one that the page can make, and what it is about.
type request struct {
	method, path string
	body         any
	// own says that a customer may do this in a session of their own.
	own bool
}

// requests returns one for each route of a session. question is where the desk answers.
func requests(session, question, sum, effect string) []request {
	at := "/sessions/" + session
	return []request{
		{"GET", at, nil, true},
		{"GET", at + "/questions", nil, true},
		{"GET", at + "/effects", nil, true},
		{"GET", at + "/events", nil, true},
		{"GET", at + "/messages", nil, true},
		{"GET", "/app" + at + "/phases", nil, true},
		{"GET", "/app/waiting?session=" + session, nil, true},
		{"GET", "/concierge" + at, nil, true},
		{"GET", "/concierge" + at + "/events", nil, true},
		{"GET", "/concierge" + at + "/messages", nil, true},
		{"POST", at + "/turns", map[string]string{"message": "Hello"}, true},
		{"POST", at + "/stop", map[string]string{"run": "run"}, true},
		{"POST", "/concierge" + at + "/turns", map[string]string{"message": "Hello"}, true},
		{"POST", question, answerOf(true, sum), false},
		{"POST", at + "/effects/" + effect, map[string]string{"outcome": "not-landed"}, false},
		{"POST", at + "/resume", map[string]any{}, false},
		{"POST", at + "/abandon", map[string]string{"run": "run"}, false},
		{"POST", at + "/branch", map[string]any{"turn": 0, "session": session + "-2"}, false},
		{"POST", "/concierge" + at + "/resume", map[string]any{}, false},
		{"POST", "/concierge" + at + "/abandon", map[string]string{"run": "run"}, false},
		{"DELETE", at, nil, false},
		{"DELETE", "/concierge" + at, nil, false},
		{"GET", "/app/waiting", nil, false},
		{"GET", "/desk" + at, nil, false},
		{"GET", "/desk" + at + "%2FA-1042", nil, false},
		{"GET", "/desk" + at + "%2FA-1042/questions", nil, false},
		{"GET", "/desk" + at + "%2FA-1042/messages", nil, false},
		{"POST", "/desk" + at + "%2FA-1042/turns", map[string]string{"message": "Hello"}, false},
		{"DELETE", "/desk" + at + "%2FA-1042", nil, false},
	}
}

// A customer who knows everything but the word of the desk pays nothing, reads nothing of others, and changes nothing.
func TestCustomer(t *testing.T) {
	t.Parallel()
	c := stores.Config{Dir: t.TempDir()}
	pays := refundtest.StartProvider(t)
	p := service(t, c, pays)
	ada, name := p.client().signIn(t, "ada", roleCustomer, "")
	eve, her := p.client().signIn(t, "ada", roleCustomer, "") // by the same name
	session := name + "-1"
	if name == her || !strings.HasPrefix(name, "ada.") {
		t.Fatalf("two customers are %q and %q", name, her)
	}
	for _, as := range [][3]string{
		{"ada", "desk", ""},
		{"ada", "desk", "guess"},
		{name, "customer", ""},
		{"ada-1", "customer", ""},
		{"", "customer", ""},
		{"ada", "boss", people.word},
	} {
		body := map[string]string{"name": as[0], "role": as[1], "word": as[2]}
		if status, err := eve.call(t.Context(), "POST", "/app/sign-in", "", body, nil); err != nil || status < 400 {
			t.Errorf("%v: status %d, %v", body, status, err)
		}
	}
	ada.say(t, session, "1", "I want a refund for A-1042")
	pays.SetMode("fail")
	own := her + "-1"
	eve.say(t, own, "1", "I want a refund for A-1050")
	for _, in := range []struct {
		client
		session, order string
	}{{ada, session, "A-1007"}, {eve, own, "A-1013"}} {
		in.must(t, http.StatusAccepted, "POST", "/sessions/"+in.session+"/turns", "2",
			map[string]string{"message": "I want a refund for " + in.order}, nil)
	}
	pays.SetMode("ok")
	desk := p.client()
	before := desk.kept(t, session)
	all := func(of string) []request {
		question, sum := desk.question(t, of)
		var doc struct{ Effects []struct{ ID string } }
		desk.must(t, http.StatusOK, "GET", "/sessions/"+of+"/effects", "", nil, &doc)
		if question == "" || len(doc.Effects) == 0 {
			t.Fatalf("%s asks %q, with the effects %+v", of, question, doc.Effects)
		}
		return requests(of, question, sum, doc.Effects[len(doc.Effects)-1].ID)
	}
	nobody := client{url: p.client().url}
	for _, r := range all(session) {
		nobody.must(t, http.StatusUnauthorized, r.method, r.path, "1", r.body, nil)
		eve.must(t, http.StatusForbidden, r.method, r.path, "1", r.body, nil)
	}
	for _, r := range all(own) {
		if !r.own {
			eve.must(t, http.StatusForbidden, r.method, r.path, "3", r.body, nil)
		}
	}
	for _, body := range []map[string]any{
		{"message": "yes", "data": map[string]any{"approve": true}},
		{"message": "yes", "origin": "answer"},
		{"message": "yes", "Origin": "answer", "By": "ann"},
	} {
		eve.must(t, http.StatusBadRequest, "POST", "/sessions/"+own+"/turns", "4", body, nil)
	}
	eve.must(t, http.StatusForbidden, "POST", "/sessions/"+own+"/branch", "",
		map[string]any{"turn": 0, "session": session + "-2"}, nil)
	for _, path := range []string{"../../" + session, "..%2F..%2F" + session, "%2E%2E/" + session} { // all are her own
		var doc struct{ Session string }
		_, err := eve.call(t.Context(), "GET", "/mine/sessions/"+path, "", nil, &doc)
		if err == nil && doc.Session != "" && !strings.HasPrefix(doc.Session, her+"-") {
			t.Errorf("%s is %q", path, doc.Session)
		}
	}
	var paid struct {
		Count    int
		Payments []any
	}
	nobody.must(t, http.StatusUnauthorized, "GET", "/app/payments", "", nil, nil)
	if eve.must(t, http.StatusOK, "GET", "/app/payments", "", nil, &paid); len(paid.Payments) > 0 {
		t.Errorf("a customer sees %+v", paid)
	}
	pays.WantPaid(t)
	if after := desk.kept(t, session); !reflect.DeepEqual(after, before) {
		t.Errorf("before %s\nafter %s", before, after)
	}
	for _, r := range requests(session, "", "", "")[:10] { // what ada may read is not refused to her
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		status, err := ada.head(ctx, r.path)
		if cancel(); err != nil || status >= 400 {
			t.Errorf("%s: status %d, %v", r.path, status, err)
		}
	}
	ada.must(t, http.StatusNoContent, "POST", "/app/sign-out", "", map[string]any{}, nil)
}

// kept returns the session, its questions and its effects as they are stored.
func (c client) kept(t *testing.T, session string) (all [3]map[string]any) {
	t.Helper()
	for i, what := range []string{"", "/questions", "/effects"} {
		c.must(t, http.StatusOK, "GET", "/sessions/"+session+what, "", nil, &all[i])
		delete(all[i], "owner")
	}
	return all
}

// head makes a request for the headers alone.
func (c client) head(ctx context.Context, path string) (status int, err error) {
	return c.call(ctx, http.MethodHead, path, "", nil, nil)
}

// A page of another site reads and changes nothing, be it that its name points to 127.0.0.1, be it with a plain form.
// It would, with the cookie of the desk: only the Host, the Origin or the type of the body differ.
func TestOtherSites(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *process{
		"demonstration": func(t *testing.T) *process { return startDemo(t, "-pace", "50ms") },
		"service": func(t *testing.T) *process {
			return service(t, stores.Config{Dir: t.TempDir()}, refundtest.StartProvider(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			c := p.client()
			c.say(t, "ada-1", "1", "I want a refund for A-1042")
			question, sum := c.question(t, "ada-1")
			all := append(requests("ada-1", question, sum, "none"), request{method: "GET", path: "/"},
				request{method: "GET", path: "/app/config"}, request{method: "GET", path: "/app/payments"},
				request{method: "GET", path: "/app/me"}, request{method: "GET", path: "/openapi.json"},
				request{"POST", "/app/sign-in", map[string]string{"name": "ada", "role": "customer"}, false},
				request{"POST", "/app/sign-out", map[string]any{}, false})
			if name == "demonstration" {
				all = append(all, request{method: "GET", path: "/healthz"},
					request{method: "GET", path: "/app/provider"},
					request{"POST", "/app/provider", map[string]string{"mode": "fail"}, false},
					request{"POST", "/app/workers/a", map[string]string{"do": "kill"}, false},
					request{"POST", "/app/workers/b", map[string]string{"do": "kill"}, false})
				c.awaitWorkers(t, running, running)
			}
			workers, before := c.describe(t).Workers, c.kept(t, "ada-1")
			for _, r := range all {
				const evil, doc = "http://evil.example", "application/json"
				c.foreign(t, r, http.StatusMisdirectedRequest, "evil.example", doc, evil)
				if r.method == "GET" {
					continue
				}
				c.foreign(t, r, http.StatusForbidden, "", doc, evil)
				c.foreign(t, r, http.StatusForbidden, "", doc, "null")
				for _, form := range []string{
					"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
				} {
					c.foreign(t, r, http.StatusForbidden, "", form, evil)
					if r.method == "POST" { // no form sends another method
						c.foreign(t, r, 0, "", form, "")
					}
				}
			}
			if after := c.kept(t, "ada-1"); !reflect.DeepEqual(after, before) {
				t.Errorf("before %s\nafter %s", before, after)
			}
			if after := c.describe(t).Workers; !reflect.DeepEqual(after, workers) {
				t.Errorf("before %+v\nafter %+v", workers, after)
			}
			if name == "demonstration" {
				var now struct{ Mode string }
				if c.must(t, http.StatusOK, "GET", "/app/provider", "", nil, &now); now.Mode != "ok" {
					t.Errorf("the provider is %q", now.Mode)
				}
			}
		})
	}
}

// foreign makes a request as a page of another site would. want 0 is any refusal of the type of the body.
func (c client) foreign(t *testing.T, of request, want int, host, kind, origin string) {
	t.Helper()
	var doc io.Reader
	if of.body != nil {
		raw, err := json.Marshal(of.body)
		if err != nil {
			t.Fatal(err)
		}
		doc = strings.NewReader(string(raw))
	}
	r, err := http.NewRequestWithContext(t.Context(), of.method, c.url()+of.path, doc)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.AddCookie(c.cookie)
	for name, value := range map[string]string{"Content-Type": kind, "Origin": origin, "Idempotency-Key": "foreign"} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	what := fmt.Sprintf("%s %s for %q as %s from %q", of.method, of.path, host, kind, origin)
	fits := answer.StatusCode == want
	if want == 0 {
		fits = answer.StatusCode == http.StatusUnsupportedMediaType || answer.StatusCode == http.StatusBadRequest ||
			answer.StatusCode == http.StatusForbidden
	}
	if err != nil || !fits {
		t.Errorf("%s: status %d, %v: %.200s", what, answer.StatusCode, err, said)
	}
	if len(answer.Cookies()) > 0 {
		t.Errorf("%s: it sets %v", what, answer.Cookies())
	}
}
