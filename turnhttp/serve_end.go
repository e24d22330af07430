package turnhttp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// How long the end of a life waits for what goes on although all turns have ended.
const (
	// lastWords is for requests that write their answers.
	lastWords = time.Second

	// lastRequests is for requests whose contexts have ended, and lastWork for background functions.
	lastRequests = 5 * time.Second
	lastWork     = 5 * time.Second
)

// errWork says that background functions ignore the end of their context.
var errWork = errors.New("turnhttp: background functions have not ended")

// end ends what the life has begun, except for Close.
func (l *life) end(ctx context.Context) {
	l.gate.Close()
	log := l.Logger.With("grace_ms", l.Timeouts.Grace.Milliseconds())
	if ctx.Err() != nil {
		log = log.With("err", logtext.Of(context.Cause(ctx)))
	}
	ctx = context.WithoutCancel(ctx)
	log.InfoContext(ctx, "shutting down")
	l.server.SetKeepAlivesEnabled(false)
	l.handOff(ctx)
	l.endRequests(ctx)
	l.endWork()
}

// handOff lets turns go on for the grace, and hands the others off.
func (l *life) handOff(ctx context.Context) {
	grace, cancel := context.WithTimeout(ctx, l.Timeouts.Grace)
	defer cancel()
	var bots sync.WaitGroup
	for _, b := range l.Bots {
		bots.Go(func() {
			if err := b.Shutdown(grace); err != nil {
				l.note(fmt.Errorf("turnhttp: bot %q: %w", b.Name(), err))
			}
		})
	}
	bots.Wait()
}

// endRequests waits for the requests, and cuts off those that do not end. No turn depends on them any more.
func (l *life) endRequests(ctx context.Context) {
	defer l.cut(nil)
	if l.idle(ctx, lastWords) {
		return
	}
	l.cut(orchestrator.ErrShuttingDown)
	if l.idle(ctx, lastRequests) {
		return
	}
	l.Logger.WarnContext(ctx, "requests cut off: they ignore the end of their contexts, or their clients do not read")
	if err := l.server.Close(); err != nil {
		l.note(fmt.Errorf("turnhttp: server: %w", err))
	}
}

// idle reports whether all requests end within d.
func (l *life) idle(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if err != nil && ctx.Err() == nil { // the listener was closed before
		l.note(fmt.Errorf("turnhttp: server: %w", err))
	}
	return ctx.Err() == nil
}

func (l *life) endWork() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.work.Wait()
	}()
	late := time.NewTimer(lastWork)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		l.note(errWork)
	}
}
