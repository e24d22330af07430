package serve

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/logtext"
)

// The pauses between calls of Prepare.
const (
	prepareFirst = 100 * time.Millisecond
	prepareMost  = 2 * time.Second
)

// prepare calls Prepare until it succeeds. If ctx ends, prepare returns nil.
func (l *life) prepare(ctx context.Context) error {
	if l.Prepare == nil {
		return nil
	}
	until := time.Now().Add(l.Timeouts.Prepare)
	for pause := prepareFirst; ; pause = min(2*pause, prepareMost) {
		err := l.Prepare(ctx)
		switch {
		case err == nil, isEnd(ctx, err):
			return nil
		case ctx.Err() != nil, !away(err), time.Until(until) < pause:
			return fmt.Errorf("serve: prepare: %w", err)
		case pause == prepareFirst:
			l.Logger.WarnContext(ctx, "not prepared: a server is away; tried again",
				"err", logtext.Of(err), "for_ms", time.Until(until).Milliseconds())
		}
		sleep(ctx, pause)
	}
}

// away reports whether err says that a server cannot be reached, or takes nothing now. Waiting does not help against
// any other error.
func away(err error) bool {
	_, dialing := errors.AsType[*net.OpError](err)
	_, resolving := errors.AsType[*net.DNSError](err)
	if dialing || resolving || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) {
		return true
	}
	// Drivers of PostgreSQL have this method. The classes are: no connection, too few resources, and an operator has
	// intervened, as when the server starts.
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if !ok {
		return false
	}
	state := e.SQLState()
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P")
}

// observe registers the gauges of all bots. The service lives without them.
func (l *life) observe(ctx context.Context) {
	for _, b := range l.Bots {
		stop, err := b.ObserveBacklog()
		if err != nil {
			l.Logger.WarnContext(ctx, "backlog not observed", "orchestrator", b.Name(), "err", logtext.Of(err))
			continue
		}
		l.observed = append(l.observed, stop)
	}
}

// unobserve waits for a look at the stores that is under way.
func (l *life) unobserve() {
	for _, stop := range l.observed {
		if err := stop(); err != nil {
			l.note(fmt.Errorf("serve: backlog: %w", err))
		}
	}
}

// drain drains all bots. It returns when they are drained, and after Timeouts.Drain although they are not. Then the
// drain goes on. It reports whether ctx lasts.
func (l *life) drain(ctx context.Context) bool {
	var bots sync.WaitGroup
	for _, b := range l.Bots {
		bots.Add(1)
		l.work.Go(func() {
			defer bots.Done()
			l.drainBot(ctx, b)
		})
	}
	drained := make(chan struct{})
	l.work.Go(func() {
		defer close(drained)
		bots.Wait()
	})
	late := time.NewTimer(max(l.Timeouts.Drain, 0))
	defer late.Stop()
	select {
	case <-drained:
	case <-ctx.Done():
	case <-late.C:
		l.Logger.WarnContext(ctx, "serving before all runs are drained: the drain goes on",
			"timeout_ms", l.Timeouts.Drain.Milliseconds())
	}
	return ctx.Err() == nil
}

func (l *life) drainBot(ctx context.Context, b Bot) {
	report, err := bootdrain.DrainInterrupted(ctx, b, l.drainOptions(b))
	log := l.Logger.With("orchestrator", b.Name(), "runs", report.Scanned, "took_ms", report.Elapsed.Milliseconds())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.ErrorContext(ctx, "not drained; the watch tries again", "err", logtext.Of(err))
	default:
		log.InfoContext(ctx, "drained")
	}
}

// watch watches all bots until ctx ends.
func (l *life) watch(ctx context.Context) {
	for _, b := range l.Bots {
		l.work.Go(func() { _ = bootdrain.Watch(ctx, b, l.drainOptions(b)) }) // the error is the end of ctx
	}
}

// sweep sweeps the databases until ctx ends.
func (l *life) sweep(ctx context.Context) {
	for _, f := range l.Sweeps {
		l.work.Go(func() { _ = bootdrain.Sweep(ctx, f, l.options()) })
	}
}

func (l *life) options() *bootdrain.Options {
	var o bootdrain.Options
	if l.Drain != nil {
		o = *l.Drain
	}
	if o.Logger == nil {
		o.Logger = l.Logger
	}
	return &o
}

// An expirer is a Bot in whose sessions something may come due, beside what its stores retire.
type expirer interface {
	Expire(ctx context.Context, limit int) (done int, err error)
}

func (l *life) drainOptions(b Bot) *bootdrain.Options {
	o := l.options()
	o.Sweep = b.Sweep
	if len(l.Sweeps) > 0 {
		o.Sweep = nil
		if b, ok := b.(expirer); ok {
			o.Sweep = b.Expire
		}
	}
	return o
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
