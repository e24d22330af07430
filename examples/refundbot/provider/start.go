package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/loopback"
)

// A Running is a provider that listens on loopback.
type Running struct {
	*Server
	URL string

	http *http.Server
	done chan struct{}
}

// Start opens the file, and serves it on a free port of loopback.
func Start(ctx context.Context, file string) (*Running, error) {
	s, err := Open(ctx, file)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	server := &http.Server{Handler: loopback.Only(s), ReadHeaderTimeout: time.Second}
	r := &Running{s, "http://" + l.Addr().String(), server, make(chan struct{})}
	go func() {
		defer close(r.done)
		_ = r.http.Serve(l) // it ends with Close
	}()
	return r, nil
}

// Close ends the server, and closes the file.
func (r *Running) Close() error {
	err := r.http.Close()
	<-r.done
	return errors.Join(err, r.Server.Close())
}
