package turnhttp

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/httpjson"
)

// A Gate answers 503 with Retry-After until it is opened, and again once it is closed. /healthz and /readyz always
// answer: /healthz with 200, and /readyz with 200 while the gate is open, and with 503 otherwise. Requests that are
// under way when the gate is closed go on.
type Gate struct {
	Handler http.Handler

	open atomic.Bool
}

// Open lets requests through to Handler.
func (g *Gate) Open() { g.open.Store(true) }

// Close lets no further request through.
func (g *Gate) Close() { g.open.Store(false) }

// ServeHTTP implements [http.Handler].
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := g.open.Load()
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && open:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		httpjson.Guard(w.Header())
		_, _ = io.WriteString(w, "ok\n")
	case open:
		g.Handler.ServeHTTP(w, r)
	default:
		w.Header().Set("Connection", "close") // a client that goes on finds another process
		Problem(w, r, errNotOpen)
	}
}
