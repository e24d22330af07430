package turnhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// What was said comes in pages, with the run in flight. Reasoning is not shown.
func TestMessages(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	says("say hi").to(t.Context(), h)
	for query, want := range map[string]string{
		"?limit=0": `[],"more":false`,
		"?limit=1": `[{"number":2,"role":"tool","turn":1,"parts":[` +
			`{"type":"tool_result","id":"c","text":"found","failed":true}]}],"more":true`,
		"?before=1": `[{"number":0,"role":"user","turn":0,"parts":[{"type":"text","text":"hi"}]}],"more":false`,
		"?before=2": `"parts":[{"type":"text","text":"I look"},{"type":"tool_call","id":"c","name":"look","args":{"at":1}}]`,
		"?before=0": `[],"more":false`,
		"":          `{"session":"s","turn":0,"messages":[{"number":0`,
		"?":         `"more":false,"reply":"hi"}`,
	} {
		res := with("messages", func(q *request) { q.path += query }).to(t.Context(), h)
		if body := res.Body.String(); !strings.Contains(body, want) || strings.Contains(body, secret) {
			t.Errorf("%q: %s, want %s", query, body, want)
		}
	}
}

// What is large is cut, and says so.
func TestPartsOf(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	parts := turnhttp.PartsOf(message.Message{Blocks: []message.Block{
		message.ToolCall("c", "f", []byte(`"`+long+`"`)), message.ToolResult("c", "x"+long, false), message.Text(long),
		{Kind: "image", Raw: json.RawMessage(`{"kind":"image"}`)},
	}})
	if len(parts) != 3 || string(parts[0].Args) != `{"bytes":20002}` || parts[2].Text != long ||
		len(parts[1].Text) > 17<<10 || !strings.HasSuffix(parts[1].Text, "é [cut: there was more]") {
		t.Errorf("%d parts: %.200v", len(parts), parts)
	}
}

// A client branches only what it may branch, and only to a session in which it may talk. It is told where that is.
func TestBranch(t *testing.T) {
	w := newWorld()
	o := w.options()
	o.Authorize = func(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) {
		if strings.Contains(r.Header.Get("Who"), fmt.Sprintf("[%s %s]", action, session)) {
			return "ann", nil
		}
		return "", turnhttp.ErrDenied
	}
	h := http.StripPrefix("/bot", turnhttp.Handler(w.bot(t, w.definition(), nil), o))
	post := func(may, to string) *httptest.ResponseRecorder {
		return request{
			method: "POST", path: "/bot/sessions/s/branch", body: to, header: map[string]string{"Who": may},
		}.to(t.Context(), h)
	}
	for _, may := range []string{
		"[branch s]", "[turn b]", "[branch s] [branch b]", "[turn s] [turn b]", "[branch s] [turn s]", "[branch b] [turn b]",
	} {
		if res := post(may, `{"session":"b"}`); res.Code != 403 || len(w.stop) > 0 {
			t.Errorf("whoever may %s is told %d", may, res.Code)
		}
	}
	for name, want := range map[string]string{
		"b": "/bot/sessions/b", "a/b": "/bot/sessions/a%2Fb", "..": "/bot/sessions/%2E%2E", "é ?": "/bot/sessions/%C3%A9%20%3F",
	} {
		res := post("[branch s] [turn "+name+"]", `{"turn":7,"session":"`+name+`"}`)
		if res.Code != 201 || <-w.stop != "s 7 "+name {
			t.Errorf("%q: %d %s", name, res.Code, res.Body)
		}
		at, err := url.Parse("http://x/bot/sessions/s/branch")
		if err == nil {
			at, err = at.Parse(res.Header().Get("Location"))
		}
		if err != nil || at.EscapedPath() != want {
			t.Errorf("%q is at %v: %v", name, at, err)
		}
	}
	post("[branch s] [turn b]", `{"session":"b"}`)
	if got := <-w.stop; got != fmt.Sprint("s ", checkpoint.Newest, " b") {
		t.Error(got)
	}
}

// A run in flight is asked to stop, by whoever may. Of another run Chat is not asked.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		f := &fixture{T: t, w: w, def: w.definition(), o: w.options()}
		f.held(0)
		f.start()
		stop := func(run string) string {
			q := with("stop", func(q *request) { q.body = `{"run":"` + run + `"}` })
			return q.to(t.Context(), f.h).Body.String()
		}
		if got := stop("another"); !strings.Contains(got, "false") || len(w.stop) > 0 {
			t.Error(got)
		}
		run := f.run()
		if got := stop(run); !strings.Contains(got, "true") || <-w.stop != "s "+run+" stopped by ann" {
			t.Error(got)
		}
	})
}
