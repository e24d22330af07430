package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// How long the end of a life waits for what goes on although all turns have ended.
const (
	// lastBytes is for requests that are on their way, and lastWords for those whose answers are.
	lastBytes = 100 * time.Millisecond
	lastWords = time.Second

	// lastRequests is for requests whose contexts have ended, and lastWork for background functions after the grace.
	lastRequests = 5 * time.Second
	lastWork     = 5 * time.Second
)

// errWork says that background functions ignore the end of their context.
var errWork = errors.New("serve: background functions have not ended")

// lingerInCluster is the default of Timeouts.Linger where others send requests.
const lingerInCluster = 3 * time.Second

// lingerAt returns the default of Timeouts.Linger for the address of a listener.
func lingerAt(addr net.Addr) time.Duration {
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return lingerInCluster
	}
	return 0
}

// linger serves on while /readyz says that it is not ready. A service that has not come to serve does not linger.
func (l *life) linger(ctx context.Context) {
	if l.Timeouts.Linger <= 0 || !l.gate.open.Load() {
		return
	}
	l.gate.lingers.Store(true)
	l.Logger.InfoContext(ctx, "not ready: serving on until requests go elsewhere",
		"linger_ms", l.Timeouts.Linger.Milliseconds())
	sleep(context.WithoutCancel(ctx), l.Timeouts.Linger)
}

// end ends what the life has begun, except for Close.
func (l *life) end(ctx context.Context) {
	l.gate.open.Store(false)
	log := l.Logger.With("grace_ms", l.Timeouts.Grace.Milliseconds())
	if ctx.Err() != nil {
		log = log.With("err", logtext.Of(context.Cause(ctx)))
	}
	ctx = context.WithoutCancel(ctx)
	log.InfoContext(ctx, "shutting down")
	l.server.SetKeepAlivesEnabled(false)
	grace := time.Now().Add(l.Timeouts.Grace)
	l.handOff(ctx)
	l.endRequests(ctx)
	l.endWork(max(lastWork, time.Until(grace)))
}

// handOff lets turns go on for the grace, and hands the others off. A bot refuses turns when the bots before it have
// ended theirs: one of them may call it as a Tool.
func (l *life) handOff(ctx context.Context) {
	grace, cancel := context.WithTimeout(ctx, l.Timeouts.Grace)
	defer cancel()
	var bots sync.WaitGroup
	defer bots.Wait()
	for _, b := range l.Bots {
		ended := make(chan struct{})
		bots.Go(func() {
			defer close(ended)
			if err := b.Shutdown(grace); err != nil {
				l.note(fmt.Errorf("serve: bot %q: %w", b.Name(), err))
			}
		})
		select {
		case <-ended:
		case <-grace.Done():
		}
	}
}

// endRequests waits for the requests, and cuts off those that do not end. No turn depends on them any more. Nor does
// anything depend on connections that have not sent a request yet; http.Server.Shutdown would wait for them.
func (l *life) endRequests(ctx context.Context) {
	defer l.cut(nil)
	if l.shutServer(ctx) || l.requests.end(ctx, lastWords) {
		l.closeServer()
		return
	}
	l.cut(owner.ErrShuttingDown)
	if !l.requests.end(ctx, lastRequests) {
		const what = "requests cut off: they ignore the end of their contexts, or their clients do not read"
		l.Logger.WarnContext(ctx, what)
	}
	l.closeServer()
}

// shutServer closes the listener and the idle connections. It reports whether there are no others.
func (l *life) shutServer(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lastBytes)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if err != nil && ctx.Err() == nil {
		l.note(fmt.Errorf("serve: server: %w", err))
	}
	return ctx.Err() == nil
}

// closeServer closes the other connections.
func (l *life) closeServer() { _ = l.server.Close() } // Shutdown has closed the listener

// requests are the connections with a request that is not answered yet. The zero value is ready.
type requests struct {
	mu     sync.Mutex // protects following fields
	active map[net.Conn]bool
	none   chan struct{} // is closed when there is none; nil: nobody waits
}

// note is a http.Server's ConnState.
func (r *requests) note(c net.Conn, s http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == http.StateActive {
		if r.active == nil {
			r.active = make(map[net.Conn]bool)
		}
		r.active[c] = true
		return
	}
	delete(r.active, c)
	if len(r.active) == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// end reports whether all requests end within d.
func (r *requests) end(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	none := make(chan struct{})
	r.mu.Lock()
	if len(r.active) == 0 {
		close(none)
	} else {
		r.none = none
	}
	r.mu.Unlock()
	select {
	case <-none:
		return true
	case <-ctx.Done():
		return false
	}
}

// endWork waits for background functions.
func (l *life) endWork(most time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.work.Wait()
	}()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		l.note(errWork)
	}
}
