package turnhttp

import (
	"context"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// ask calls a function of the program: see foreign.Ask.
func ask[T any](what string, f func() (T, error)) (T, error) { return foreign.Ask(what, f) }

// report tells the program of an error that a client saw as a status of 500 or more, or that no client saw.
func (s *server[S]) report(ctx context.Context, r *http.Request, err error) {
	foreign.Told(ctx, "Options.OnError", err, func(err error) { s.OnError(r, err) })
}
