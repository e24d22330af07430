//go:build unix

package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/serve"
)

// A background function fails, and the service ends. Then comes the first signal. It ends nothing: turns have their
// grace, and Close is called. If Serve did not catch it, it would end the process of the test.
func TestFirstSignalAfterFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	broken, fail, release := errors.New("broken"), make(chan struct{}), make(chan struct{})
	closed, done := false, make(chan error, 1)
	bot := &fakeBot{story: new(story), shutdown: func(context.Context) error { <-release; return nil }}
	go func() {
		done <- serve.Run(t.Context(), serve.Service{
			Handler: teapot, Listener: listener, Bots: []serve.Bot{bot}, Logger: slog.New(slog.DiscardHandler),
			Background: []func(context.Context) error{func(context.Context) error { <-fail; return broken }},
			Close:      func() error { closed = true; return nil },
		})
	}()
	await := func(status int) {
		t.Helper()
		for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
			resp, err := http.Get(url + "/readyz")
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == status {
				return
			}
		}
		t.Fatalf("/readyz is not %d", status)
	}
	await(http.StatusOK)
	close(fail)
	await(http.StatusServiceUnavailable)
	// Signals that wait come in the order of their numbers. So the first has come when the second has. If it came
	// later, it would go to the next test.
	second := make(chan os.Signal, 1)
	signal.Notify(second, syscall.SIGWINCH)
	defer signal.Stop(second)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGWINCH} {
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	<-second
	close(release)
	select {
	case err := <-done:
		if !errors.Is(err, broken) || !closed {
			t.Errorf("got %v, closed: %t", err, closed)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}
