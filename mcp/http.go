package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tripper is the wiring of a server behind HTTP. It stands in the client of the SDK.
type tripper struct {
	sdk.StreamableClientTransport

	link *link
	base http.RoundTripper
	own  bool // the base is nobody else's

	life context.Context // of all requests
	end  context.CancelFunc

	mu   sync.Mutex // protects following field
	conn sdk.Connection
}

func newTripper(with *http.Client, address string, l *link) *tripper {
	var client http.Client
	if with != nil {
		client = *with
	}
	t := &tripper{link: l, base: client.Transport}
	switch plain, ok := http.DefaultTransport.(*http.Transport); {
	case t.base != nil:
	case ok:
		t.base, t.own = plain.Clone(), true
	default:
		t.base = http.DefaultTransport
	}
	t.life, t.end = context.WithCancel(context.Background())
	client.Transport = t
	t.StreamableClientTransport = sdk.StreamableClientTransport{
		Endpoint: address, HTTPClient: &client, MaxEventSize: maxMessage,
	}
	return t
}

// Connect implements sdk.Transport.
func (t *tripper) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.StreamableClientTransport.Connect(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = conn
	return conn, err
}

func (t *tripper) kill() {
	t.end()
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // its requests have ended
	}
	if of, ok := t.base.(interface{ CloseIdleConnections() }); ok && t.own {
		of.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. It notes what is proven of a call, and bounds the body.
func (t *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(t.life, cancel)
	p := proofIn(ctx)
	if p != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { p.sent.Store(true) },
		})
	}
	res, err := t.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		t.link.stale.Store(true)
		return nil, err
	}
	if p != nil && p.ctx.Err() == nil {
		p.status.Store(int64(res.StatusCode))
	}
	b := &body{ReadCloser: res.Body, link: t.link, left: maxMessage, done: func() { stop(); cancel() }}
	b.stream = strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	b.listens = r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
	res.Body = b
	return res, nil
}

// A body is what a server answers. If it breaks off, the server may have been started anew, with other tools.
type body struct {
	io.ReadCloser
	link    *link
	stream  bool // of events, each with a bound
	listens bool // for the whole life of the link
	left    int
	done    func()
}

var errLarge = errors.New("the server has sent a message that is too large")

func (b *body) Read(to []byte) (int, error) {
	if !b.stream && b.left <= 0 {
		return 0, errLarge
	}
	n, err := b.ReadCloser.Read(to)
	b.left -= n
	if err != nil && (b.listens || !errors.Is(err, io.EOF)) {
		b.link.stale.Store(true)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
