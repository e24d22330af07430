// Package serve is the life of a process that serves bots. [Run] listens, makes the stores ready, drains, serves and
// watches, and hands off when the process is told to end:
//
//	err := serve.Run(ctx, serve.Service{
//		Handler: turnhttp.Handler(bot, options),
//		Bots:    []serve.Bot{bot},
//		Prepare: db.Up,
//		Sweeps:  []func(context.Context, int) (int, error){db.Sweep},
//		Close:   func() error { pool.Close(); return nil },
//	})
//
// # The gate
//
// The handler gets no request before the bots are drained, nor after the process was told to end and has lingered: see
// Timeouts.Linger. Until then and from then on, a request is 503 with Retry-After and a document of
// application/problem+json. /healthz and /readyz always answer: /healthz with 200, and /readyz with 200 while the gate
// is open, and with 503 otherwise, also while the service lingers. Requests that are under way when the gate is shut go
// on.
package serve
