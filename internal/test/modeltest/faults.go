package modeltest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/retry"
)

type header = map[string]string

// Each refusal says whether another attempt may help, and when. It is one line, without the key.
func statuses(t testing.TB, api API) {
	for _, c := range []struct {
		status     int
		code, text string
		header     header
		want       string
		again      bool
		after      time.Duration
	}{
		{429, "rate_limit_error", "slow\ndown", header{"Retry-After": "7"}, "slow down", true, 7 * time.Second},
		{429, "rate_limit_exceeded", "x", header{"Retry-After-Ms": "1500"}, "429", true, 1500 * time.Millisecond},
		{429, "insufficient_quota", "no money", nil, "no money", false, 0},
		{500, "api_error", "oops", nil, "500 api_error: oops", true, 0},
		{503, "server_error", "later", nil, "503", true, 0},
		{529, "overloaded_error", "too much to do", nil, "529 overloaded_error: too much to do", true, 0},
		{401, "authentication_error", "bad key sk-test", nil, "the key in Options.Key is refused (401", false, 0},
		{403, "permission_error", "not you", nil, "the key in Options.Key may not ask m-1 (403", false, 0},
		{404, "not_found_error", "model: m-1", nil, `there is no model "m-1"`, false, 0},
		{400, "context_length_exceeded", "too much", nil, "longer than the model takes", false, 0},
		{400, "invalid_request_error", "prompt is too long: 9 tokens", nil, "longer than the model", false, 0},
		{413, "request_too_large", "x", nil, "longer than the model takes", false, 0},
		{400, "invalid_request_error", "tools.1.custom.input_schema: no", nil, `tool "refund": tools.1`, false, 0},
		{400, "x", "Invalid 'tools[0].name'", nil, `tool "lookup": `, false, 0},
		{400, "x", strings.Repeat("é", 10_000), nil, "…", false, 0},
	} {
		_, _, err := api.reply(t, told, func(Asked) Answer {
			return Answer{Status: c.status, Header: c.header, Body: api.Fault(c.code, c.text)}
		})
		long := errors.Is(err, agent.ErrTooLong)
		after, _ := retry.AfterOf(err)
		text := fmt.Sprint(err)
		if !strings.Contains(text, c.want) || strings.Contains(text, "sk-test") || strings.Contains(text, "\n") ||
			len(text) > 700 || c.again == (retry.IsPermanent(err) || long) || after != c.after {
			t.Errorf("%d %s: %v; permanent %t, after %v", c.status, c.code, err, retry.IsPermanent(err), after)
		}
		if e, ok := errors.AsType[*models.Error](err); !ok || e.Status != c.status || e.Code != c.code {
			t.Errorf("%d %s: %#v", c.status, c.code, e)
		}
	}
	for body, want := range map[string]string{
		`{"error":{"message":"behind a proxy","code":503}}`: "503: behind a proxy",
		`{"choices":[]}`: "it answers with no stream", "": "it answers with no stream",
	} {
		_, _, err := api.reply(t, told, func(Asked) Answer { return Answer{Body: body} })
		if err == nil || retry.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A vendor may say in the middle of a reply that it has failed.
func failsInTheMiddle(t testing.TB, api API) {
	for code, again := range map[string]bool{
		"overloaded_error": true, "server_error": true, "unheard_of": true, "rate_limit_error": true,
		"invalid_request_error": false, "context_length_exceeded": false,
	} {
		frames := api.Frames(saying(message.Text("I look."), call("c1", "refund", `{"order":"A"}`)))
		got, _, err := api.reply(t, told, func(Asked) Answer {
			return Answer{Frames: append(frames[:3:3], api.Broken(code, "it failed"))}
		})
		final := retry.IsPermanent(err) || errors.Is(err, agent.ErrTooLong)
		if err == nil || !strings.Contains(err.Error(), "it failed") || again == final || len(got.Message.Blocks) > 0 {
			t.Errorf("%s: %v, %+v", code, err, got.Message)
		}
	}
}

// A refusal is an error: another attempt does not help, but another model may.
func refuses(t testing.TB, api API) {
	s := saying(message.Text("I"))
	s.Refusal = "I cannot help with that."
	got, _, err := api.reply(t, told, api.whole(s))
	if !errors.Is(err, models.ErrRefused) || !retry.IsPermanent(err) || !strings.Contains(err.Error(), s.Refusal) ||
		got.Usage.Output != 100 {
		t.Errorf("%v, %+v", err, got)
	}
}

// A reply that ends at its longest is Cut.
func length(t testing.TB, api API) {
	s := saying(message.Text("A long story beg"))
	s.Cut = true
	got, _, err := api.reply(t, told, api.whole(s))
	if err != nil || !got.Cut || got.Usage.Input != 1000 {
		t.Fatalf("%+v, %v", got, err)
	}
	same(t, got, s.Message.Blocks...)
}

// Nonsense is an error, or is told as it is: arguments that are no JSON are the agent's to judge.
func nonsense(t testing.TB, api API) {
	s := saying(call("c1", "refund", `"{\"order\": oops"`))
	got, _, err := api.reply(t, told, api.whole(s))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, s.Message.Blocks...)
	frames := api.Frames(saying(message.Text("x")))
	large := saying(message.Text(strings.Repeat("large ", 9<<20/6)))
	for name, all := range map[string][]string{
		"garbage":   append(frames[:2:2], "event: message_delta\ndata: {oops\n\n"),
		"no events": {"hello\n\n", "world\n\n"},
		"binary":    {"\x00\x01\x02\xff\n\n"},
		"too large": api.Frames(large),
	} {
		got, _, err := api.reply(t, told, func(Asked) Answer { return Answer{Frames: all} })
		if err == nil || len(got.Message.Blocks) > 0 {
			t.Errorf("%s: %+v", name, got.Message)
		}
	}
}

// A reply that never ends ends with its context, whether it is silent or not.
func neverEnds(t testing.TB, api API) {
	frames := api.Frames(saying(message.Text("x")))
	for _, n := range []int{0, 2} {
		server := httptest.NewServer(api.Handler(func(Asked) Answer {
			return Answer{Frames: append([]string{": hello\n\n"}, frames[:n]...), End: "hang"}
		}))
		m, err := api.New("m-1", server.URL, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = m.Reply(ctx, told, func(string) {})
		cancel()
		server.Close()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
}

// Tools that the API would refuse are named before anything is asked.
func tools(t testing.TB, api API) {
	server := httptest.NewServer(api.Handler(func(Asked) Answer { t.Error("it was asked"); return Answer{} }))
	defer server.Close()
	m, err := api.New("m-1", server.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := []agent.Tool{
		{Name: "list", Parameters: []byte(`{"type":"array"}`)},
		{Name: "union", Parameters: []byte(`{"type":"object","anyOf":[{"required":["a"]}]}`)},
		{Name: "broken", Parameters: []byte(`{`)},
		told.Tools[1],
	}
	err = m.(agent.ToolChecker).CheckTools(wrong)
	for _, name := range []string{"list", "union", "broken"} {
		if err == nil || !strings.Contains(err.Error(), `tool "`+name+`"`) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "refund") {
		t.Error(err)
	}
	for n := 127; n <= 130; n++ {
		many := make([]agent.Tool, n)
		for i := range many {
			many[i].Name = fmt.Sprint("tool-", i)
		}
		err := m.(agent.ToolChecker).CheckTools(many)
		if fits := api.Most == 0 || n <= api.Most; fits != (err == nil) {
			t.Errorf("%d tools: %v", n, err)
		}
	}
	union := wrong[1]
	union.Run = func(context.Context, agent.Call) (string, error) { return "", nil }
	d := agent.Definition[none]{Name: "shop", Model: m, Tools: []agent.Tool{union}}
	if _, err := agent.New(d, agent.InMemory(), nil); err == nil || !strings.Contains(err.Error(), `tool "union"`) {
		t.Errorf("agent.New: %v", err)
	}
	_, err = m.Reply(t.Context(), agent.Request{Said: told.Said, Tools: wrong[:1]}, func(string) {})
	if !retry.IsPermanent(err) {
		t.Error(err)
	}
}

// A key that is not set is named by New, and one that is wrong by the first reply. A key of the environment does not go
// to a server that the program names.
func keys(t testing.TB, api API) {
	t.Setenv(api.Key, "")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "")
	base := strings.TrimSuffix(api.Key, "_API_KEY") + "_BASE_URL"
	t.Setenv(base, "")
	if _, err := api.New("m-1", "", "", nil); err == nil || !strings.Contains(err.Error(), api.Key+" is not set") {
		t.Errorf("no key: %v", err)
	}
	if _, err := api.New("", "http://localhost", "k", nil); err == nil {
		t.Error("no model: no error")
	}
	t.Setenv(api.Key, "sk-secret")
	sent := ""
	server := httptest.NewServer(api.Handler(func(Asked) Answer {
		return Answer{Status: 401, Body: api.Fault("invalid_api_key", "Incorrect API key provided: sk-secret.")}
	}))
	defer server.Close()
	inner := server.Config.Handler
	server.Config.Handler = handler(func(key string) { sent = key }, inner)
	for url, want := range map[string]string{"": "sk-secret", server.URL: ""} {
		t.Setenv(base, server.URL)
		m, err := api.New("m-1", url, "", nil)
		if err == nil {
			_, err = m.Reply(t.Context(), told, func(string) {})
		}
		if err == nil || sent != want || strings.Contains(err.Error(), "sk-secret") ||
			want != "" && !strings.HasSuffix(err.Error(), "the key in "+api.Key+" is refused (401 invalid_api_key)") {
			t.Errorf("sent %q: %v", sent, err)
		}
	}
}

// Prices without one of the model are refused: it would be free.
func prices(t testing.TB, api API) {
	for name, p := range map[string]models.Prices{
		"another":  {"m-2": {Input: 1}},
		"negative": {"m-1": {Input: -1}},
	} {
		if _, err := api.New("m-1", "http://localhost", "k", p); err == nil || !strings.Contains(err.Error(), `"m-1"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
