package turnhttp

import (
	"net/http"
	"sync/atomic"
)

// A Gate answers 503 with Retry-After, except for /healthz and /readyz, until it is opened, and again once it is closed.
type Gate struct {
	Handler http.Handler

	open atomic.Bool
}

// Open opens the gate.
func (g *Gate) Open() { g.open.Store(true) }

// Close closes the gate.
func (g *Gate) Close() { g.open.Store(false) }

// ServeHTTP implements [http.Handler].
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := g.open.Load()
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && open:
		w.WriteHeader(http.StatusOK)
	case open:
		g.Handler.ServeHTTP(w, r)
	default:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
