package serve

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
)

// A gate answers 503 with Retry-After while it is shut, and /healthz and /readyz always.
type gate struct {
	handler http.Handler
	open    atomic.Bool
	lingers atomic.Bool // it is open, and says that it is not ready
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open, lingers := g.open.Load(), g.lingers.Load()
	if lingers {
		w.Header().Set("Connection", "close") // a proxy must not send the next request here
	}
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && open && !lingers:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		httpjson.Guard(w.Header())
		_, _ = io.WriteString(w, "ok\n")
	case open && r.URL.Path != "/readyz":
		g.handler.ServeHTTP(w, r)
	default:
		w.Header().Set("Connection", "close") // a client that goes on finds another process
		httpjson.WriteProblem(w, http.StatusServiceUnavailable, time.Second, httpjson.Problem{
			Type: "/problems/unavailable", Title: "The service is not available now.",
			Status: http.StatusServiceUnavailable, Retryable: true,
		})
	}
}
