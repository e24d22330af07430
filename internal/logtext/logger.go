package logtext

import (
	"cmp"
	"context"
	"log/slog"
)

type loggerKey struct{}

// WithLogger makes log the Logger of what happens under the context.
func WithLogger(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, log)
}

// Logger returns the Logger of ctx, or slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	log, _ := ctx.Value(loggerKey{}).(*slog.Logger)
	return cmp.Or(log, slog.Default())
}
