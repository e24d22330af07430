package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
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

// passOn chooses the worker for each request. If a worker cannot be reached, another one gets the request: nothing has
// read it yet.
type passOn struct {
	demo *demo
	http *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p *passOn) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errors.New("no worker serves")
	for range p.demo.workers {
		w := p.demo.pick()
		if w == nil {
			break
		}
		var answer *http.Response
		if answer, err = p.ask(r, w); err == nil {
			return answer, nil
		}
		var dialing *net.OpError
		if !errors.As(err, &dialing) || dialing.Op != "dial" {
			break
		}
		p.demo.leave(w)
	}
	return nil, err
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

// ask sends the request to w, and gives it up when w is stopped or dies.
func (p *passOn) ask(r *http.Request, w *worker) (*http.Response, error) {
	at, serving := w.place()
	if at == nil {
		return nil, errors.New("the worker has gone")
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(serving, cancel)
	r = r.Clone(ctx)
	r.URL.Host = at.Host
	answer, err := p.http.RoundTrip(r)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	answer.Body = &body{answer.Body, func() { stop(); cancel() }}
	return answer, nil
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
