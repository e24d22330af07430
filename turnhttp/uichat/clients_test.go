package uichat_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// site serves a shop to clients. Below /files it takes files, /echo is a bot that keeps no messages, and /cut leaves
// out how an answer ends, as a proxy does that speaks HTTP/1.0 to a process that dies.
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

// The first token reaches a page at most 5 ms after Execute tells of it.
func TestFirstToken(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" {
		t.Skip("HOLDFAST_TEST_CLIENTS is not set: make clients sets it")
	}
	s := newShop(t, nil)
	srv := s.site(t)
	median := func(of func(i int, said time.Time) time.Duration) time.Duration {
		var all []time.Duration
		for i := range 51 {
			all = append(all, of(i, time.Now()))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	execute := median(func(i int, began time.Time) (after time.Duration) {
		_, err := s.agent.Say(t.Context(), fmt.Sprint("e", i), agent.Text("hello"), &orchestrator.CallOptions{
			OnEvent: func(ev orchestrator.Event) {
				if ev.Kind == orchestrator.Token && after == 0 {
					after = time.Since(began)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return after
	})
	page := median(func(i int, began time.Time) (after time.Duration) {
		body := fmt.Sprintf(`{"id":"p%d","trigger":"submit-message","messages":[
			{"id":"m","role":"user","parts":[{"type":"text","text":"hello"}]}]}`, i)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/chat", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Who", "ann")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if after == 0 && strings.Contains(lines.Text(), "text-delta") {
				after = time.Since(began)
			}
		}
		return after
	})
	t.Logf("Execute %v, page %v", execute, page)
	if page-execute > 5*time.Millisecond {
		t.Errorf("the first token comes %v later", page-execute)
	}
}
