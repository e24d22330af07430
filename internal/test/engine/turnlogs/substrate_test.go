package turnlogs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/holdfast-go/holdfast/internal/test/turnlogs"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A substrate is the object store of a third party, and the wire to it.
type substrate struct {
	t      *testing.T
	log    turnlogs.ObjectLog
	bucket turnlogs.Bucket
	proxy  *toxiproxy.Proxy

	mu    sync.Mutex // protects following fields
	puts  map[string]int
	dials int

	// onPut is called when the nth write of a phase has arrived, before the store does it.
	onPut func(phase string, n int)

	// onRefused is called when the nth connection was refused.
	onRefused func(n int)
}

// newSubstrate serves a substrate until the test ends. With keep, the client keeps its connections.
func newSubstrate(t *testing.T, keep bool) *substrate {
	t.Helper()
	s := &substrate{t: t, puts: make(map[string]int)}
	server := httptest.NewServer(s)
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	s.proxy = toxiproxy.NewProxy(api, "substrate", "", server.Listener.Addr().String())
	s.listen()
	transport := &http.Transport{DisableKeepAlives: !keep, DialContext: s.dial}
	s.log = turnlogs.ObjectLog{URL: "http://substrate", Client: &http.Client{Transport: transport}}
	t.Cleanup(func() {
		s.proxy.Toxics.ResetToxics(context.Background())
		s.proxy.Stop()
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// listen lets the proxy listen at a port that is free now.
func (s *substrate) listen() {
	s.proxy.Lock()
	s.proxy.Listen = "127.0.0.1:0"
	s.proxy.Unlock()
	if err := s.proxy.Start(); err != nil {
		s.t.Error(err)
	}
}

// toxic adds a toxic, which its JSON describes.
func (s *substrate) toxic(doc string) {
	if _, err := s.proxy.Toxics.AddToxicJson(strings.NewReader(doc)); err != nil {
		s.t.Error(err)
	}
}

// repair ends all cuts and delays.
func (s *substrate) repair() {
	s.proxy.Toxics.ResetToxics(context.Background())
	s.proxy.Lock()
	serves := s.proxy.Enabled
	s.proxy.Unlock()
	if !serves {
		s.listen()
	}
}

// dial connects to the proxy.
func (s *substrate) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.proxy.Lock()
	address := s.proxy.Listen
	s.proxy.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		s.mu.Lock()
		s.dials++
		n, heard := s.dials, s.onRefused
		s.mu.Unlock()
		if heard != nil {
			heard(n)
		}
	}
	return c, err
}

// ServeHTTP implements [http.Handler]. It is the store behind the wire.
func (s *substrate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the request was cut off
	}
	if r.Method == http.MethodPut {
		var e turnlog.Entry
		if err := json.Unmarshal(body, &e); err != nil {
			s.t.Errorf("%q is written: %v", body, err)
		}
		s.mu.Lock()
		s.puts[e.Phase]++
		n, heard := s.puts[e.Phase], s.onPut
		s.mu.Unlock()
		if heard != nil {
			heard(e.Phase, n)
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.bucket.ServeHTTP(w, r)
}

// written returns how many writes of a phase have arrived.
func (s *substrate) written(phase string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts[phase]
}

// wantPhases checks what the store has of a run, in the order of the times. It has nothing else.
func (s *substrate) wantPhases(run, want string) {
	s.t.Helper()
	all, err := s.log.Restore(s.t.Context(), run)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for i, e := range all {
		name := e.Phase
		if name == turnlog.Settled {
			var end turnlog.SettledState
			if err := json.Unmarshal(e.State, &end); err != nil {
				s.t.Error(err)
			}
			name += "(" + end.TurnState + ")"
		}
		names = append(names, name)
		if i > 0 && !e.At.After(all[i-1].At) {
			s.t.Errorf("%s is not after %s", e.Phase, all[i-1].Phase)
		}
	}
	if got := strings.Join(names, " "); got != want {
		s.t.Errorf("phases %q, want %q", got, want)
	}
	if n := s.bucket.Len(); n != len(all) {
		s.t.Errorf("%d objects, want %d", n, len(all))
	}
}
