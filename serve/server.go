package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// newServer returns a server whose requests get contexts of ctx. It has no WriteTimeout, which would cut off readers of
// events.
func newServer(ctx context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// guard logs a panic of h, without its value: that may repeat what a user said.
func (l *life) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); !ok || !errors.Is(logtext.Shield(err), http.ErrAbortHandler) {
				l.Logger.ErrorContext(r.Context(), "handler panicked", "method", r.Method, "route", r.Pattern,
					"type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // the server closes the connection
		}()
		h.ServeHTTP(w, r)
	})
}
