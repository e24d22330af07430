package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/agent"
)

// A Client is a program's side of one server. Its methods may be called concurrently.
type Client struct {
	opts   Options
	server string // for errors and log lines
	dial   func(*link) (wiring, error)
	offers []*offer

	life  context.Context // of all calls
	end   context.CancelFunc
	calls sync.WaitGroup

	turn chan struct{} // its element is with who makes or mends the link, and protects the following field
	link *link         // nil: there is none

	mu       sync.Mutex // protects following fields
	closed   bool
	failures int // of the link, since a call was answered
	next     time.Time
}

// errClosed is what the calls get that Close has ended.
var errClosed = errors.New("the client was closed")

// Command starts a server, and lists its tools. create makes the command, without its standard input and output. It is
// called again if the server has died. What the server writes to standard error is lost, unless create sets Stderr.
// Close ends the command.
func Command(ctx context.Context, create func() *exec.Cmd, o *Options) (*Client, error) {
	var cmd *exec.Cmd
	if create != nil {
		cmd = create()
	}
	if cmd == nil {
		return nil, errors.New("mcp: Command needs a function that makes a command")
	}
	c := newClient(filepath.Base(cmd.Path), o)
	c.dial = func(l *link) (wiring, error) {
		now := cmd
		if cmd = nil; now == nil {
			now = create()
		}
		return startProcess(now, l)
	}
	return c, c.begin(ctx)
}

// HTTP lists the tools of a server that speaks streamable HTTP.
func HTTP(ctx context.Context, address string, o *Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("mcp: the address of a server begins with http:// or https:// and a host")
	}
	c := newClient(u.Host, o)
	c.dial = func(l *link) (wiring, error) { return newTripper(c.opts.HTTPClient, address, l), nil }
	return c, c.begin(ctx)
}

func newClient(server string, o *Options) *Client {
	c := &Client{opts: o.withDefaults(), server: server, turn: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// begin makes the first link, and takes the tools from it. If it returns an error, nothing is left of the client.
func (c *Client) begin(ctx context.Context) error {
	err := c.opts.fault()
	if err == nil {
		var l *link
		if l, err = c.reach(ctx); err == nil {
			c.offers, err = c.opts.take(l.listed)
		}
	}
	if err != nil {
		_ = c.Close()
		return fmt.Errorf("mcp: server %s: %w", c.server, err)
	}
	return nil
}

// Tools returns the tools of the server, for the Tools of an agent. The program may change them: with a Key, for
// example, or with a Verify.
func (c *Client) Tools() []agent.Tool {
	all := make([]agent.Tool, 0, len(c.offers))
	for _, f := range c.offers {
		t := f.tool
		t.Run = func(ctx context.Context, call agent.Call) (string, error) { return c.call(ctx, f, call) }
		all = append(all, t)
	}
	return all
}

// Close ends the calls that are under way, the connection and the command, and returns when nothing of them is left.
// Then each call is refused. It returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.calls.Wait()
	c.turn <- struct{}{}
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
	<-c.turn
	return nil
}

// enter reports whether a call may begin. It ends by calls.Done.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}
