package oncehttp_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/oncehttp"
)

// A recorded reply has the headers that SDKs show, and no others: above all no secrets.
func TestHeaders(t *testing.T) {
	shown := map[string]string{
		"Request-Id": "req_1", "X-Request-Id": "req_2", "X-Amzn-Requestid": "req_3", "Apim-Request-Id": "req_4",
		"Retry-After": "7", "Retry-After-Ms": "7000", "Openai-Processing-Ms": "120",
		"X-Ratelimit-Remaining-Tokens": "149984", "Anthropic-Ratelimit-Requests-Remaining": "49",
		"Content-Type": "text/plain",
	}
	hidden := []string{
		"Set-Cookie", "Authorization", "Www-Authenticate", "Proxy-Authorization", "X-Api-Key", "Anthropic-Organization-Id",
		"Openai-Organization", "X-Amz-Security-Token", "Date", "Server", "X-Ratelimited", "Anthropic-Ratelimit",
	}
	m := newModel(t, func(w http.ResponseWriter, r *http.Request, question string) {
		for name, value := range shown {
			w.Header().Set(name, value)
		}
		for _, name := range hidden {
			w.Header().Set(name, "secret")
		}
		w.Header().Set("X-Ratelimit-Long", strings.Repeat("x", 2000))
		w.Header().Add("X-Ratelimit-Twice", "a")
		w.Header().Add("X-Ratelimit-Twice", "b")
		w.Header().Set("X-Ratelimit-Odd", "\xff")
		_, _ = io.WriteString(w, "reply to "+question)
	})
	var kept, first http.Header
	client := m.recorded(&oncehttp.Options{Keep: func(r oncehttp.Reply) bool { kept = r.Header; return true }})
	var last *http.Response
	res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
		got, err := m.open(oncehttp.With(ctx, t, "model"), client, "one")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if first == nil {
			first = got.Header
		}
		last, t.State.Said = got, []string{string(text)}
		return err
	}))
	if err != nil || !slices.Equal(res.State.Said, []string{"reply to one"}) {
		t.Fatalf("%v, %+v", err, res)
	}
	m.wantAsked(t, "one") // so last is the recorded reply
	if first.Get("Set-Cookie") == "" {
		t.Error("the first reply lacks headers")
	}
	for name, value := range shown {
		mustEqual(t, name, last.Header.Get(name), value)
		if name != "Content-Type" {
			mustEqual(t, "what Keep sees of "+name, kept.Get(name), value)
		}
	}
	mustEqual(t, "a header that comes twice", fmt.Sprint(last.Header.Values("X-Ratelimit-Twice")), "[a b]")
	mustEqual(t, "headers", len(last.Header), len(shown)+2)
	for _, name := range append(hidden, "X-Ratelimit-Long") {
		if _, has := last.Header[name]; has || kept.Get(name) != "" {
			t.Errorf("%s is recorded: %v", name, slices.Sorted(maps.Keys(last.Header)))
		}
	}
}

// A reply of many and long headers takes no more room than is set for them.
func TestManyHeaders(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		for i := range 200 {
			w.Header().Set(fmt.Sprint("X-Ratelimit-", i), strings.Repeat("x", 200))
		}
		_, _ = io.WriteString(w, "reply")
	})
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		_, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "one")
		return err
	})
	if err != nil || len(all) != 1 || len(all[0].Result) > 12_000 {
		t.Errorf("%v, %d effects, the first of %d bytes", err, len(all), len(all[0].Result))
	}
}
