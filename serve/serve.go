package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/logtext"
)

// A Bot is an Orchestrator, as [Run] needs it.
type Bot interface {
	bootdrain.Bot

	// Sweep retires what the stores no longer need: see bootdrain.Options.Sweep. If there are Service.Sweeps, it is not
	// called. Of a Bot with a method Expire of the same signature, as an Orchestrator is one, Expire is called then.
	Sweep(ctx context.Context, limit int) (retired int, err error)

	// ObserveBacklog registers gauges of what the stores hold that is not finished, until stop is called.
	ObserveBacklog() (stop func() error, err error)

	// Shutdown refuses new turns, waits for the others until ctx ends, and hands the rest off.
	Shutdown(ctx context.Context) error
}

// A Service is a process that serves bots. Only Handler is required.
type Service struct {
	// Handler answers the requests while the gate is open: see the package comment.
	Handler http.Handler

	// Bots are drained at boot, watched while the service is ready, and shut down at the end, one after the other. A
	// bot that calls another one as a Tool comes before it.
	Bots []Bot

	// Prepare makes the stores ready, before a bot uses them: migrations.Up, or migrations.Check. If it fails because a
	// server is not there, Run calls it again, for Timeouts.Prepare. A call may take longer than that.
	Prepare func(context.Context) error

	// Sweeps retire what the databases no longer need: Sweep of a postgres.DB, say. Run calls each of them once a
	// minute while the service is ready, as bootdrain.Sweep does. nil means that each bot sweeps its own stores, also
	// if several bots have them in one database.
	Sweeps []func(ctx context.Context, limit int) (retired int, err error)

	// Background functions run while the service is ready, and have to return when ctx ends. They may end what they do
	// for as long as turns may go on. So the Run of an engine of workflows belongs here. If one of them returns an
	// error before ctx ends, the service ends.
	Background []func(ctx context.Context) error

	// Close closes the clients of the stores. Run calls it once, last, also if it has not come to serve.
	Close func() error

	// Addr is the TCP address to listen on. "" means ":8080".
	Addr string

	// Listener is used in place of Addr, if it is not nil. Run closes it.
	Listener net.Listener

	Timeouts Timeouts

	// Drain has options for the drains and watches of all bots. nil means the defaults. Sessions and Sweep
	// have to be nil. OnRun is called for several bots at once.
	Drain *bootdrain.Options

	// Logger gets what the service does. nil means slog.Default().
	Logger *slog.Logger
}

// Timeouts bound the phases of a Service. 0 means the default, and a negative value no time at all.
type Timeouts struct {
	// Prepare is for how long Service.Prepare is repeated while it fails because a server is not there. 0 means 10s.
	Prepare time.Duration

	// Drain is how long the first requests wait for the drain. 0 means 30s. Then the service serves while the drain
	// goes on. That is safe: a request for a session that is not drained yet finishes its run first.
	Drain time.Duration

	// Linger is how long the service goes on as before when it is told to end, while /readyz is 503 already. So what
	// stands in front of it sends the next requests elsewhere before the gate is shut. 0 means 3s if the service
	// listens on a TCP address that is not loopback, and no time otherwise: then nothing else sends requests. Grace
	// begins after it.
	Linger time.Duration

	// Grace is how long turns may go on at the end, before they are handed off, and background functions. 0 means 20s.
	// The end may take longer: see Run.
	Grace time.Duration
}

// Run is the life of a process. It returns when ctx has ended, or the process has got SIGTERM or an interrupt, and
// all that it began has ended. A second signal ends the process at once, by the signal's default action.
//
// Run listens first, with the gate shut. Then it prepares the stores, drains the bots, and opens the gate. From then on
// it watches the bots, sweeps, and runs the background functions. From when the stores are prepared until it closes
// them, it observes the backlog of each bot: see ObserveBacklog of an Orchestrator. So set the meter provider of
// OpenTelemetry before.
//
// At the end it lingers for Timeouts.Linger. Then it shuts the gate, and ends watches, drains and background functions.
// Turns may go on for Timeouts.Grace. Then they are handed off, and another process takes them up. Requests that go on
// after that, such as readers of events, are cut off: their contexts end after a second, with the cause
// orchestrator.ErrShuttingDown, and their connections five seconds later. Run waits for background functions as long,
// and at least five seconds. Last, Run calls Close. In all, the end takes Timeouts.Linger, Timeouts.Grace, and a second
// or two, if the functions of the bots and the handlers heed their contexts. If not, it takes Timeouts.Linger, as long
// as Shutdown of an Orchestrator says, and eleven seconds.
//
// If preparing, listening, accepting connections or a background function fails, the service ends in the same way, and
// Run returns the error, joined with those of the end. If the drain fails, Run logs it and serves: the watch tries
// again.
//
// Run panics if Handler is nil.
func Run(ctx context.Context, s Service) error {
	if s.Handler == nil {
		panic("serve: Service.Handler is nil")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // gives the second signal its default action
	ctx = logtext.WithLogger(ctx, cmp.Or(s.Logger, slog.Default()))
	return newLife(ctx, s).run(ctx, stop)
}

// A life is one call of Run.
type life struct {
	Service
	gate   gate
	server *http.Server

	// cut ends the contexts of all requests.
	cut      context.CancelCauseFunc
	requests requests

	// work are the goroutines that Run has begun: the server, drains, watches and background functions.
	work sync.WaitGroup

	// observed ends the gauges of the bots.
	observed []func() error

	mu   sync.Mutex // protects the following field
	errs []error    // what failed, in order
}

func newLife(ctx context.Context, s Service) *life {
	l := &life{Service: s}
	l.Logger = cmp.Or(s.Logger, slog.Default())
	l.Timeouts.Prepare = cmp.Or(s.Timeouts.Prepare, 10*time.Second)
	l.Timeouts.Drain = cmp.Or(s.Timeouts.Drain, 30*time.Second)
	l.Timeouts.Grace = cmp.Or(s.Timeouts.Grace, 20*time.Second)
	l.gate.handler = l.guard(s.Handler)
	ctx, l.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	l.server = newServer(ctx, &l.gate, l.Logger)
	l.server.ConnState = l.requests.note
	return l
}

// run is Run. After the first signal it calls stop before anybody can see the gate shut: who has seen that may send
// the second one.
func (l *life) run(ctx context.Context, stop func()) error {
	listener, err := l.listen(ctx)
	if err != nil {
		return errors.Join(err, l.close())
	}
	l.Timeouts.Linger = cmp.Or(l.Timeouts.Linger, lingerAt(listener.Addr()))
	// alive ends at the end of the life: when a service that boots is told to end, and otherwise after the linger.
	alive, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	booted := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	fail := func(err error) {
		l.note(err)
		end(err)
	}
	l.work.Go(func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serve: serve: %w", err))
		}
	})
	if err := l.boot(alive, listener.Addr(), fail); err != nil {
		fail(err)
	}
	if booted() {
		select {
		case <-ctx.Done():
		case <-alive.Done():
		}
	}
	if ctx.Err() != nil {
		stop()
	}
	l.linger(ctx)
	end(context.Cause(ctx))
	l.end(ctx)
	l.unobserve()
	l.note(l.close())
	return l.failed()
}

func (l *life) listen(ctx context.Context) (net.Listener, error) {
	if l.Listener != nil {
		return l.Listener, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(l.Addr, ":8080"))
	if err != nil {
		return nil, fmt.Errorf("serve: listen: %w", err)
	}
	return listener, nil
}

// boot goes on until the service is ready, or ctx ends.
func (l *life) boot(ctx context.Context, addr net.Addr, fail func(error)) error {
	began := time.Now()
	l.Logger.InfoContext(ctx, "listening", "addr", addr.String())
	if err := l.prepare(ctx); err != nil {
		return err
	}
	l.observe(ctx)
	if !l.drain(ctx) {
		return nil
	}
	l.gate.open.Store(true)
	l.Logger.InfoContext(ctx, "serving", "addr", addr.String(), "boot_ms", time.Since(began).Milliseconds())
	l.watch(ctx)
	l.sweep(ctx)
	for _, f := range l.Background {
		l.work.Go(func() {
			if err := f(ctx); err != nil && !isEnd(ctx, err) {
				fail(fmt.Errorf("serve: background function: %w", err))
			}
		})
	}
	return nil
}

// isEnd reports whether err only says that ctx has ended.
func isEnd(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

func (l *life) close() error {
	if l.Close == nil {
		return nil
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("serve: close: %w", err)
	}
	return nil
}

func (l *life) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

func (l *life) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}
