package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A wiring carries the messages of a link. After kill no goroutine of it is left, and nothing is waited for.
type wiring interface {
	sdk.Transport
	kill()
}

// A link is a connection with a server that has listed its tools.
type link struct {
	session *sdk.ClientSession
	wire    wiring
	listed  []*sdk.Tool
	byName  map[string]*sdk.Tool
	stale   atomic.Bool // the list may have changed
	active  atomic.Int64
	dead    chan struct{} // closed when the connection has ended

	doomed atomic.Bool // the server has forgotten it, or takes nothing more

	heard  atomic.Int64 // messages that a process has sent
	silent atomic.Int64 // heard + 1 when a call has waited in vain

	mu    sync.Mutex // protects following field
	under []*within  // the calls that are under way
}

const (
	// grace is how long a server may take to end.
	grace = 2 * time.Second

	// withSessions is the newest protocol that begins by a handshake. Some servers end when they see a newer one.
	withSessions = "2025-11-25"

	maxTools = 1000

	firstPause, longestPause = 100 * time.Millisecond, 30 * time.Second
)

var errStart = errors.New("it has not listed its tools in time: see Options.StartTimeout")

// reach returns a link with a list that is not stale. Whatever it returns, nothing was called.
func (c *Client) reach(ctx context.Context) (*link, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l := c.link; l != nil && l.useless() {
		l.wire.kill()
		l.close()
		c.lost("the connection has ended")
	}
	if l := c.link; l != nil && l.stale.Swap(false) {
		err := c.list(ctx, l)
		if err == nil {
			return l, nil
		}
		l.stale.Store(true)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l.close()
		c.lost(err.Error())
	}
	if c.link != nil {
		return c.link, nil
	}
	if err := c.pause(ctx); err != nil {
		return nil, err
	}
	l, err := c.open(ctx)
	if err != nil {
		c.lost(err.Error())
		return nil, err
	}
	c.link = l
	return l, nil
}

// lost notes that there is no link. The caller has the turn.
func (c *Client) lost(why string) {
	c.link = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.next = time.Now().Add(min(firstPause<<min(c.failures-1, 20), longestPause))
	if c.offers != nil {
		c.opts.Logger.Warn("mcp server lost", "server", c.server, "err", cut(why, maxText), "failures", c.failures)
	}
}

// pause waits until the server may be tried again. If that is too late for the caller, it says so at once.
func (c *Client) pause(ctx context.Context) error {
	c.mu.Lock()
	wait := time.Until(c.next)
	c.mu.Unlock()
	if until, ok := ctx.Deadline(); ok && wait > time.Until(until) {
		return errors.New("it was lost, and is not tried again yet")
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open makes a link.
func (c *Client) open(ctx context.Context) (l *link, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStart)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	for _, version := range []string{"", withSessions} {
		l = &link{dead: make(chan struct{})}
		if l.wire, err = c.dial(l); err != nil {
			return nil, err
		}
		if err = c.openAs(ctx, l, version); err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, err
}

// openAs begins the talk by the newest protocol that is no newer than the version.
func (c *Client) openAs(ctx context.Context, l *link, version string) (err error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "holdfast", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
		}},
		ElicitationHandler:     l.elicit,
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { l.stale.Store(true) },
	})
	client.AddReceivingMiddleware(harmless)
	defer context.AfterFunc(ctx, l.wire.kill)()
	l.session, err = client.Connect(ctx, l.wire, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		l.wire.kill()
		if p, ok := l.wire.(*process); ok && errors.Is(err, io.EOF) {
			return p.ended(err)
		}
		return err
	}
	go func() {
		_ = l.session.Wait() // the call that was under way has the error
		close(l.dead)
	}()
	if err := c.list(ctx, l); err != nil {
		l.close()
		return err
	}
	return nil
}

// list reads the list of the server.
func (c *Client) list(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStart)
	defer cancel()
	var listed []*sdk.Tool
	byName := make(map[string]*sdk.Tool)
	for t, err := range l.session.Tools(ctx, nil) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("its tools: %w", err)
		case byName[t.Name] != nil:
			return fmt.Errorf("it lists the tool %q twice", cut(t.Name, maxName))
		case len(listed) == maxTools:
			return fmt.Errorf("it lists more than %d tools", maxTools)
		}
		listed = append(listed, t)
		byName[t.Name] = t
	}
	l.listed, l.byName = listed, byName
	return nil
}

// useless reports whether the link has ended, or is to end: a process has let a call wait in vain, has said nothing
// since, and nobody else waits for it.
func (l *link) useless() bool {
	select {
	case <-l.dead:
		return true
	default:
		return l.doomed.Load() || l.silent.Load() == l.heard.Load()+1 && l.active.Load() == 0
	}
}

// waited notes that a call has waited in vain, and how much was heard before it.
func (l *link) waited(heard int64) {
	if _, ok := l.wire.(*process); ok && l.heard.Load() == heard {
		l.silent.Store(heard + 1)
	}
}

// close ends the link, and returns when nothing of it is left. No call may be under way.
func (l *link) close() {
	timer := time.AfterFunc(grace, l.wire.kill)
	_ = l.session.Close() // what it says is about a server that is not asked any more
	timer.Stop()
	l.wire.kill()
	<-l.dead
}
