package oncehttp

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/ledger"
)

// NotSent returns a RoundTripper that marks an error with ledger.NotDone if the request was never sent: no connection
// came about. So an effect of a service that is down is tried again, and not in doubt. base sends the requests; nil
// means http.DefaultTransport. The RoundTripper of a Recorder does the same.
//
// The type of such an error alone is no proof: http.Transport sends a request with an Idempotency-Key again if the
// server closes the connection, and the error is about the last attempt. So base must be an http.Transport, or pass
// requests on to one with their contexts; otherwise no error is marked. Nor is one behind a redirect.
func NotSent(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return proving{base.RoundTrip}
}

type proving struct {
	next func(*http.Request) (*http.Response, error)
}

// RoundTrip makes a proving an http.RoundTripper.
func (p proving) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent sending
	res, err := p.next(req.WithContext(sent.in(req.Context())))
	return res, sent.judge(req, err)
}

// A sending notes how far a request comes. A transport tells it, on any goroutine.
type sending struct{ asked, connected atomic.Bool }

func (s *sending) in(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.connected.Store(true) },
	})
}

// judge marks the error of a request that was never sent. A redirect has had an answer: what it is about was sent.
func (s *sending) judge(req *http.Request, err error) error {
	if err == nil || req.Response != nil || !s.asked.Load() || s.connected.Load() {
		return err
	}
	return ledger.NotSent(err)
}
