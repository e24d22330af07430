package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// echo is a worker that answers with what it gets.
func echo(t *testing.T) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(all)
	}))
	t.Cleanup(server.Close)
	return place(t, server.URL)
}

func place(t *testing.T, address string) *url.URL {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// workerAt returns a worker in a state, without its process.
func workerAt(t *testing.T, name, state string, at *url.URL) *worker {
	t.Helper()
	w := &worker{name: name, state: state, url: at, changed: make(chan struct{})}
	w.serving, w.giveUp = context.WithCancel(t.Context())
	return w
}

// A worker has died, and nobody has noticed yet. The other one gets the request, with all of its body, also a request
// without a key.
func TestProxyUnreachable(t *testing.T) {
	for _, key := range []string{"", "key"} {
		d := &demo{workers: []*worker{workerAt(t, "a", running, gone(t)), workerAt(t, "b", running, echo(t))}}
		const text = `{"approve":true}`
		if said, err := pass(t, d, new(http.Transport), key, text); err != nil || said != text {
			t.Errorf("key %q: %q, %v", key, said, err)
		}
	}
}

// A body that is too long to be kept is passed on, and is given to no other worker.
func TestProxyLongBody(t *testing.T) {
	long := strings.Repeat("x", mostRepeated+10)
	d := &demo{workers: []*worker{workerAt(t, "a", running, echo(t)), workerAt(t, "b", dead, nil)}}
	if said, err := pass(t, d, new(http.Transport), "key", long); err != nil || said != long {
		t.Errorf("%d bytes, %v", len(said), err)
	}
	d = &demo{workers: []*worker{workerAt(t, "a", running, gone(t)), workerAt(t, "b", running, echo(t))}}
	if said, err := pass(t, d, new(http.Transport), "", long); !unread(err) {
		t.Errorf("%d bytes, %v", len(said), err)
	}
}

// A worker has died, nobody has noticed yet, and the other one only begins. The request waits for one that serves,
// however often the dead one refuses.
func TestProxyPatient(t *testing.T) {
	a := workerAt(t, "a", running, place(t, "http://192.0.2.1:1"))
	b := workerAt(t, "b", starting, echo(t))
	dials := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != a.url.Host {
			return new(net.Dialer).DialContext(ctx, network, to)
		}
		if dials++; dials == repeats+2 {
			b.set(running)
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}}
	said, err := pass(t, &demo{workers: []*worker{a, b}}, transport, "key", "hello")
	if err != nil || said != "hello" {
		t.Errorf("%q, %v after %d dials", said, err, dials)
	}
}

// No worker knows at first how the turn ends: the provider does not know of a payment yet. The request is sent again
// until one knows, as often as a client with an Idempotency-Key would send it.
func TestProxyUnknownOutcome(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < repeats {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		_, _ = io.WriteString(w, "paid")
	}))
	t.Cleanup(server.Close)
	at := place(t, server.URL)
	d := &demo{workers: []*worker{workerAt(t, "a", running, at), workerAt(t, "b", running, at)}}
	if said, err := pass(t, d, new(http.Transport), "key", "hello"); err != nil || said != "paid" {
		t.Errorf("%q, %v after %d requests", said, err, asked.Load())
	}
}

// gone is where no worker serves any more.
func gone(t *testing.T) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return place(t, server.URL)
}

// pass returns the reply to a request that the demonstration passes on.
func pass(t *testing.T, d *demo, transport *http.Transport, key, text string) (string, error) {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	sent := strings.NewReader(text)
	closing := &body{io.NopCloser(sent), func() { sent.Reset("") }} // as a server's: closed, it has no bytes
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://worker/", closing)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(text))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := (&passOn{d, transport}).RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	return string(said), err
}
