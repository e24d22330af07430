package chatserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/model/chatserver"
)

// What a real server refuses is refused, and is not counted.
func TestRefused(t *testing.T) {
	const good = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	with := func(member string) string { return strings.Replace(good, "{", "{"+member+",", 1) }
	s := &chatserver.Server{Key: "k"}
	for _, c := range []struct {
		method, path, key, body string
		want                    int
	}{
		{"POST", "/v1/chat/completions", "k", good, 200},
		{"POST", "/v1/completions", "k", good, 404},
		{"GET", "/v1/chat/completions", "k", "", 405},
		{"POST", "/v1/chat/completions", "other", good, 401},
		{"POST", "/v1/chat/completions", "k", `{`, 400},
		{"POST", "/v1/chat/completions", "k", `{"model":"m"}`, 400},
		{"POST", "/v1/chat/completions", "k", strings.Replace(good, "user", "robot", 1), 400},
		{"POST", "/v1/chat/completions", "k", with(`"stream_options":{"include_usage":true}`), 400},
		{"POST", "/v1/chat/completions", "k", with(`"response_format":{"type":"json_schema"}`), 400},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+c.key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want || c.want != http.StatusOK && !strings.Contains(w.Body.String(), `"code"`) {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, w.Code, w.Body, c.want)
		}
	}
	if n := len(s.Asked()); n != 1 {
		t.Errorf("counted %d requests, want 1", n)
	}
}

// A stream is chunks of the protocol, with the usage last.
func TestStream(t *testing.T) {
	s := new(chatserver.Server)
	web := httptest.NewServer(s)
	defer web.Close()
	const body = `{"model":"m","stream":true,"stream_options":{"include_usage":true},` +
		`"messages":[{"role":"user","content":"thanks"}]}`
	res, err := http.Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(err, res.Header)
	}
	events := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n\n")
	n := len(events)
	for i, want := range map[int]string{
		0: `"delta":{"content":"You "}`, n - 3: `"finish_reason":"stop"`,
		n - 2: `"completion_tokens":7`, n - 1: "data: [DONE]",
	} {
		if i < 0 || !strings.Contains(events[i], want) {
			t.Errorf("event %d of %q lacks %s", i, events, want)
		}
	}
}
