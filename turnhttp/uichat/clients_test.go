package uichat_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// site serves a shop to clients. Below /files it takes files, /echo is a bot that keeps no messages, and /cut leaves out
// how an answer ends, as a proxy does that speaks HTTP/1.0 to a process that dies.
func (s *shop) site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/api/", s)
	mux.Handle("/files/", uichat.Handler(s.agent.Bot(), s.agent.Options(turnhttp.Options[state]{Authorize: may}),
		&uichat.Options{File: func(_ *http.Request, _ string, f uichat.File) (string, error) {
			return "[" + f.Name + "]", nil
		}}))
	mux.Handle("/echo/", echoes(t))
	mux.HandleFunc("/cut/", func(w http.ResponseWriter, r *http.Request) {
		res := httptest.NewRecorder()
		s.ServeHTTP(res, r)
		w.Header().Set("Content-Type", "text/event-stream")
		body, _, _ := strings.Cut(res.Body.String(), `data: {"type":"finish-step"}`)
		_, _ = w.Write([]byte(body))
	})
	mux.HandleFunc("POST /go", func(http.ResponseWriter, *http.Request) { s.hold <- struct{}{} })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// The Chat of the AI SDK and its DefaultChatTransport talk with a handler as they are.
func TestClients(t *testing.T) {
	cmd := npm.Node(t, "testdata/chat.mjs", newShop(t, nil).site(t).URL)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []struct{ Name, Error string }
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	t.Log(len(results), "checks")
}
