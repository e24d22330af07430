package turnhttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// An inputOf has the fields of what has become of an input.
type inputOf struct {
	Status  string
	Run     *struct{ Status string }
	Turn    *turnOf
	Problem *struct{ Type, Detail string }
}

// become returns what a 202 says that its input has become.
func become(t *testing.T, h http.Handler, accepted *httptest.ResponseRecorder) inputOf {
	t.Helper()
	at, err := url.Parse("/sessions/s/turns")
	if err == nil {
		at, err = at.Parse(accepted.Header().Get("Location"))
	}
	if err != nil || accepted.Code != 202 || accepted.Header().Get("Preference-Applied") != "respond-async" {
		t.Fatalf("%d %v %s: %v", accepted.Code, accepted.Header(), accepted.Body, err)
	}
	res := request{method: "GET", path: at.EscapedPath()}.to(t.Context(), h)
	if res.Code != 200 {
		t.Fatalf("%s is %d %s", at, res.Code, res.Body)
	}
	return decode[inputOf](t, res.Body.Bytes())
}

// A client that does not wait learns what has become of its input, whichever process has run it. A repeat gets the same
// answer, and nothing runs twice. One that waits after all gets the reply.
func TestLater(t *testing.T) {
	w := newWorld()
	opts := &orchestrator.Options{Inbox: w.answers}
	mine := turnhttp.Handler(w.bot(t, w.definition(), opts), w.options())
	other := &fixture{T: t, w: w, def: w.definition(), o: w.options(), bot: opts}
	other.start()
	q := later("say hello")
	q.key = "a key/.."
	first := q.to(t.Context(), mine)
	if got := become(t, mine, first); got.Status != "waiting" || got.Turn != nil || w.ran.Load() != 0 {
		t.Errorf("before any process has looked: %+v", got)
	}
	for range 2 {
		if again := q.to(t.Context(), other.h); again.Code != 202 || again.Body.String() != first.Body.String() ||
			again.Header().Get("Location") != first.Header().Get("Location") {
			t.Errorf("a repeat is %d %v %s", again.Code, again.Header(), again.Body)
		}
		other.runs()
		if got := become(t, mine, first); got.Status != "settled" || got.Turn.Reply != "hello" || w.ran.Load() != 1 {
			t.Errorf("afterwards: %+v, and the bot has run %d times", got, w.ran.Load())
		}
	}
	q.header = nil
	if res := q.to(t.Context(), mine); res.Code != 200 || !decode[turnOf](t, res.Body.Bytes()).Replayed {
		t.Errorf("who waits is told %d %s", res.Code, res.Body)
	}
	if res := says("say more").to(t.Context(), mine); res.Header().Get("Preference-Applied") != "" {
		t.Errorf("a turn at once: %v", res.Header())
	}
}

// The watch tries a turn that fails until it is over. Then its sender is told so, as one who has waited.
func TestLaterFails(t *testing.T) {
	for text, want := range map[string]string{"fail": "/problems/bot-failed", "refuse": "/problems/invalid"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			f := &fixture{T: t, w: w, def: w.definition(), o: w.options()}
			f.bot = &orchestrator.Options{Inbox: w.answers, Limits: orchestrator.Limits{Attempts: 2}}
			f.start()
			accepted := later(text).to(t.Context(), f.h)
			f.runs()
			got := become(t, f.h, accepted)
			if text == "fail" && (got.Status != "running" || got.Run.Status != "waiting") {
				t.Errorf("after the first attempt: %+v", got)
			}
			time.Sleep(time.Hour)
			f.runs()
			got = become(t, f.h, accepted)
			if got.Status != "failed" || got.Problem.Type != want || (text == "refuse") != (got.Problem.Detail != "") ||
				strings.Contains(got.Problem.Detail, secret) {
				t.Errorf("%s: %+v", text, got)
			}
		})
	}
}

// The preference counts wherever it stands among others, and nowhere else.
func TestPrefer(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), &orchestrator.Options{Inbox: w.answers}), w.options())
	for prefer, want := range map[string]int{
		"respond-async": 202, "Respond-Async": 202, "wait=10, respond-async": 202, "respond-async; x=1": 202,
		`a="\"b,", respond-async ,c`: 202, "": 200, "respond-async-not": 200,
		`a="b, respond-async"`: 200, "return=minimal": 200,
	} {
		q := with("turn", func(q *request) { q.key, q.header = "k"+prefer, map[string]string{"Prefer": prefer} })
		if res := q.to(t.Context(), h); res.Code != want {
			t.Errorf("%s: %d %s", prefer, res.Code, res.Body)
		}
	}
}
