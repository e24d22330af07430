package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"
)

// proxy passes requests on to a worker that serves, tokens as they come.
func (d *demo) proxy() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "worker" // passOn knows where
			r.Out.Host = r.In.Host
		},
		Transport: &passOn{d, &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second,
		}},
		FlushInterval: -1,
		ErrorLog:      quietLog(),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusBadGateway)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"type": "about:blank", "title": "The process that had this request has gone.",
				"status": http.StatusBadGateway, "retryable": true,
			})
		},
	}
}

// The limits of repeating a request.
const (
	// mostRepeated is the size of bodies, of requests and replies, that are kept to be repeated.
	mostRepeated = 1 << 20
	// repeats is how many workers get a request that can be reached, and repeatFor is how long.
	repeats   = 5
	repeatFor = 20 * time.Second
	// rest is how long a worker that has failed gets no request, if no other serves.
	rest = 100 * time.Millisecond
)

// passOn chooses the worker for each request. A request that may be repeated is given to another worker if its worker
// ends, or hands its turn off, before the client has got a byte: one that only reads, and one with an Idempotency-Key.
// Any other request is given to another worker only if the first cannot be reached: nothing has read it yet.
type passOn struct {
	demo *demo
	http *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p *passOn) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	kept, err := keepBody(r)
	if err != nil {
		return nil, err
	}
	again := kept && repeatable(r)
	until := time.Now().Add(repeatFor)
	refused := false // a worker has answered that it does not serve
	var failed *worker
	for try := 1; ; {
		w := p.demo.await(r.Context(), again, until, failed)
		if w == nil {
			return nil, errors.Join(errors.New("no worker serves"), err)
		}
		var answer *http.Response
		if answer, err = p.ask(r, w, again); err == nil && final(answer.StatusCode, refused) {
			return answer, nil
		}
		last := try == repeats || time.Now().After(until) || r.Context().Err() != nil
		switch {
		case err == nil && (!again || last):
			return answer, nil
		case err == nil:
			_ = answer.Body.Close()
			if refused { // each worker has been asked
				wait(r.Context(), answer)
			}
			refused = true
		case last, !again && !(kept && unread(err)):
			return nil, err
		}
		if !unread(err) { // a worker that cannot be reached has not tried
			try++
		}
		failed = w
		p.demo.leave(w)
	}
}

// final reports whether no worker has a better answer. A worker that does not serve says 503. A worker that does not
// know how the turn ends says 504: it has handed the turn off, or the provider does not know of a payment yet. refused
// says that a worker has given such an answer before. The next 503 is final then, and a 504 is not.
func final(status int, refused bool) bool {
	return status != http.StatusGatewayTimeout && (refused || status != http.StatusServiceUnavailable)
}

// wait waits as long as an answer says.
func wait(ctx context.Context, answer *http.Response) {
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if err != nil {
		return
	}
	_ = pause(ctx, time.Duration(seconds)*time.Second)
}

// unread reports whether no worker has read a request that failed with err.
func unread(err error) bool {
	var dialing *net.OpError
	return errors.As(err, &dialing) && dialing.Op == "dial"
}

// repeatable reports whether a worker may get the request although another has read it.
func repeatable(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Idempotency-Key") != ""
}

// keepBody keeps the body of a request, so that it can be sent again. It reports false if the body is too long.
func keepBody(r *http.Request) (bool, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return true, nil
	}
	kept, err := io.ReadAll(io.LimitReader(r.Body, mostRepeated+1))
	if err != nil {
		return false, err
	}
	if len(kept) > mostRepeated {
		rest := r.Body
		r.Body = &body{io.NopCloser(io.MultiReader(bytes.NewReader(kept), rest)), func() { _ = rest.Close() }}
		return false, nil
	}
	_ = r.Body.Close()
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(kept)), nil }
	return true, nil
}

// await returns the worker that gets the request; nil if none serves. If wait is set, it waits for one. The worker that
// has just failed may be dead, and nobody has noticed yet: it gets the request only after a rest, or a change.
func (d *demo) await(ctx context.Context, wait bool, until time.Time, failed *worker) *worker {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	for {
		changed := d.changes()
		w := d.pick()
		var rested <-chan time.Time
		switch {
		case w == nil && !wait, w != nil && w != failed:
			return w
		case w != nil:
			rested, failed = time.After(rest), nil
		}
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-rested:
		case <-ctx.Done():
			return nil
		case <-late.C:
			return nil
		}
	}
}

// pick returns the worker that gets the requests; nil if none serves. It stays the same until it dies.
func (d *demo) pick() *worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range d.workers {
		if at, _ := d.workers[d.current].place(); at != nil {
			return d.workers[d.current]
		}
		d.current = (d.current + 1) % len(d.workers)
	}
	return nil
}

// leave turns to the worker after w.
func (d *demo) leave(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.workers[d.current] == w {
		d.current = (d.current + 1) % len(d.workers)
	}
}

// ask sends the request to w, and gives it up when w is stopped or dies. If whole is set, a short reply that is no
// stream is read to its end, so that the request can be repeated if the worker dies meanwhile.
func (p *passOn) ask(r *http.Request, w *worker, whole bool) (*http.Response, error) {
	at, serving := w.place()
	if at == nil {
		return nil, errors.New("the worker has gone")
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(serving, cancel)
	free := func() { stop(); cancel() }
	asked := r.Clone(ctx)
	asked.URL.Host = at.Host
	if r.GetBody != nil {
		asked.Body, _ = r.GetBody() // it cannot fail
	}
	answer, err := p.http.RoundTrip(asked)
	if err == nil && whole {
		err = begun(answer)
	}
	if err != nil {
		free()
		return nil, err
	}
	answer.Body = &body{answer.Body, free}
	return answer, nil
}

// begun reads the beginning of a reply that is no stream.
func begun(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return nil
	}
	kept, err := io.ReadAll(io.LimitReader(answer.Body, mostRepeated))
	if err != nil {
		_ = answer.Body.Close()
		return err
	}
	rest := answer.Body
	answer.Body = &body{io.NopCloser(io.MultiReader(bytes.NewReader(kept), rest)), func() { _ = rest.Close() }}
	return nil
}

// A body frees what belongs to its request when it is closed.
type body struct {
	io.ReadCloser
	free func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.free()
	return b.ReadCloser.Close()
}
