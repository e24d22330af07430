package mcp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/mcp"
)

// A site is an HTTP server whose handler can be exchanged.
type site struct {
	*httptest.Server
	now   atomic.Pointer[http.Handler]
	calls atomic.Int64
}

func newSite(t *testing.T, h http.Handler) *site {
	t.Helper()
	s := new(site)
	s.serve(h)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		(*s.now.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// hangUp ends the sessions of a server, which it would keep.
func hangUp(s *sdk.Server) {
	for session := range s.Sessions() {
		session.Close()
	}
}

func (s *site) serve(h http.Handler) { s.now.Store(&h) }

func dial(t *testing.T, address string, o *mcp.Options) *mcp.Client {
	t.Helper()
	c, err := mcp.HTTP(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, c) })
	return c
}

// With and without sessions: calls, lists that change, a server that was started anew.
func TestHTTP(t *testing.T) {
	for name, plain := range map[string]bool{"sessions": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			h, server := overHTTP(plain)
			defer hangUp(server)
			s := newSite(t, h)
			c := dial(t, s.URL, &mcp.Options{Trust: true})
			for call, want := range map[string]string{"look": "seen A", "pay": "paid A"} {
				if got, err := run(t, t.Context(), c, call, `{"order":"A"}`); got != want || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
			if got, err := run(t, t.Context(), c, "big", `{"order":"A"}`); len(got) > 140<<10 || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			change(server)
			changed(t, c)
			h, anew := overHTTP(plain)
			defer hangUp(anew)
			s.serve(h)
			s.CloseClientConnections()
			until := time.Now().Add(patience)
			got, err := run(t, t.Context(), c, "look", `{"order":"A"}`)
			for err != nil && time.Now().Before(until) {
				got, err = run(t, t.Context(), c, "look", `{"order":"A"}`)
			}
			if got != "seen A" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A server that has forgotten the session has not taken the call: it is made once more, in a new session.
func TestForgottenSession(t *testing.T) {
	h, forgetful := overHTTP(false)
	defer hangUp(forgetful)
	s := newSite(t, h)
	c := dial(t, s.URL, nil)
	h, server := overHTTP(false)
	defer hangUp(server)
	s.serve(h)
	if got, err := run(t, t.Context(), c, "pay", `{"order":"A"}`); got != "paid A" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// What a server of HTTP answers in place of a result.
func TestHTTPLies(t *testing.T) {
	answer := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, text) //nolint:errcheck // the client may be gone
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"401":     {answer(401, "text/plain", "who?"), never},
		"403":     {answer(403, "text/plain", "no"), never},
		"429":     {answer(429, "text/plain", "later"), never},
		"500":     {answer(500, "text/plain", "oops"), unknown},
		"503":     {answer(503, "text/plain", "oops"), unknown},
		"html":    {answer(200, "text/html", "<p>"), unknown},
		"json":    {answer(200, "application/json", "{"), unknown},
		"events":  {answer(200, "text/event-stream", "data: {\n\n"), unknown},
		"nothing": {answer(200, "text/event-stream", ""), unknown},
		"other":   {answer(200, "application/json", `{"jsonrpc":"2.0","id":99,"result":{}}`), unknown},
		"huge":    {answer(200, "application/json", `{"a":"`+strings.Repeat("x", 17<<20)+`"}`), unknown},
		"events without end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				io.WriteString(w, ": "+strings.Repeat("x", 1<<10)+"\n\n") //nolint:errcheck // the client may be gone
			}
		}, unknown},
		"cut":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unknown},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, server := overHTTP(false)
			defer hangUp(server)
			s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				doc, err := io.ReadAll(r.Body)
				if err == nil && strings.Contains(string(doc), `"tools/call"`) {
					c.h(w, r)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(doc))
				h.ServeHTTP(w, r)
			}))
			client := dial(t, s.URL, &mcp.Options{Timeout: timeoutOf(c.want)})
			_, err := run(t, t.Context(), client, "pay", `{"order":"A"}`)
			judged(t, name, err, c.want)
		})
	}
}

// If no connection comes about, nothing was sent.
func TestHTTPAway(t *testing.T) {
	h, _ := overHTTP(true)
	s := newSite(t, h)
	c := dial(t, s.URL, &mcp.Options{Timeout: 2 * time.Second, HTTPClient: each()})
	s.CloseClientConnections()
	s.Close()
	_, err := run(t, t.Context(), c, "pay", `{"order":"A"}`)
	judged(t, "away", err, never)
}

// The process of a server is killed in the middle of a call.
func TestHTTPKilled(t *testing.T) {
	says := newLines()
	cmd := command(t, "http", says)()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, "http://"+says.await(t, "address"), &mcp.Options{HTTPClient: each()})
	done := make(chan error)
	go func() {
		_, err := run(t, context.Background(), c, "hang", `{"order":"A"}`)
		done <- err
	}()
	says.await(t, "called hang")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	judged(t, "killed", <-done, unknown)
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := run(t, short, c, "pay", `{"order":"A"}`)
	judged(t, "away", err, never)
}

// The client of the program is used, and a server that hangs at the beginning is given up.
func TestHTTPClient(t *testing.T) {
	h, _ := overHTTP(true)
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	if _, err := mcp.HTTP(t.Context(), s.URL, nil); err == nil {
		t.Error("no error")
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	defer own.CloseIdleConnections()
	c := dial(t, s.URL, &mcp.Options{HTTPClient: &http.Client{Transport: signed{own}}})
	if got, err := run(t, t.Context(), c, "look", `{"order":"A"}`); got != "seen A" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	shut(t, c)
	s.serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a server that reads notices that the client is gone
		<-r.Context().Done()
	}))
	_, err := mcp.HTTP(t.Context(), s.URL, &mcp.Options{StartTimeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "in time") {
		t.Error(err)
	}
}

// each returns a client that makes a connection for each request. What is written to a kept connection, which the
// server has just closed, may have arrived.
func each() *http.Client {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableKeepAlives = true
	return &http.Client{Transport: own}
}

type signed struct{ base http.RoundTripper }

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer x")
	return s.base.RoundTrip(r)
}
