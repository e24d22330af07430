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
}

// ServeHTTP implements [http.Handler].
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	open := g.open.Load()
	switch {
	case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && open:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		httpjson.Guard(w.Header())
		_, _ = io.WriteString(w, "ok\n")
	case open:
		g.handler.ServeHTTP(w, r)
	default:
		w.Header().Set("Connection", "close") // a client that goes on finds another process
		httpjson.WriteProblem(w, http.StatusServiceUnavailable, time.Second, httpjson.Problem{
			Type: "/problems/unavailable", Title: "The service is not available now.",
			Status: http.StatusServiceUnavailable, Retryable: true,
		})
	}
}
