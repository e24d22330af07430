package oncehttp_test

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

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// closedPort is the address of a port that refuses connections.
const closedPort = "127.0.0.1:1"

// breaks is a server that reads the request and closes the connection.
func breaks(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// dies is a server that answers the first request. It reads the second one and closes the connection and its port. So
// the transport, which sends a request with an Idempotency-Key again, is refused after the request has arrived.
func dies(t testing.TB) (url string, arrived *atomic.Int64) {
	arrived = new(atomic.Int64)
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if arrived.Add(1) == 2 {
			_ = s.Listener.Close()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, arrived
}

func post(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("pay"))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", "k1")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// An error is marked if no connection came about, and only then. A Recorder judges alike, recording or not.
func TestNotSent(t *testing.T) {
	for how, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"NotSent":  oncehttp.NotSent,
		"Recorder": oncehttp.New(nil).Transport,
	} {
		for name, c := range map[string]struct {
			url  func(testing.TB) string
			warm bool // a connection is open
			base func(*http.Transport) http.RoundTripper
			want bool
		}{
			"a port that refuses":    {url: func(testing.TB) string { return "http://" + closedPort }, want: true},
			"a name that nobody has": {url: func(testing.TB) string { return "http://nobody.invalid" }, want: true},
			"a proxy that refuses": {
				url: func(testing.TB) string { return "http://nobody.invalid" },
				base: func(base *http.Transport) http.RoundTripper {
					base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: closedPort})
					return base
				},
				want: true,
			},
			"a server that reads and closes": {url: breaks},
			"a repeat that is refused":       {url: func(t testing.TB) string { u, _ := dies(t); return u }, warm: true},
			"a redirect to a port that refuses": {url: func(t testing.TB) string {
				to := "http://" + closedPort
				s := httptest.NewServer(http.RedirectHandler(to, http.StatusSeeOther))
				t.Cleanup(s.Close)
				return s.URL
			}},
			"a client that says nothing of its connections": {
				url: func(testing.TB) string { return "http://" + closedPort },
				base: func(base *http.Transport) http.RoundTripper {
					return tripper(func(r *http.Request) (*http.Response, error) {
						return base.RoundTrip(r.Clone(context.Background()))
					})
				},
			},
		} {
			t.Run(how+" "+name, func(t *testing.T) {
				transport := new(http.Transport)
				defer transport.CloseIdleConnections()
				base := http.RoundTripper(transport)
				if c.base != nil {
					base = c.base(transport)
				}
				client, to := &http.Client{Transport: wrap(base)}, c.url(t)
				ctx := oncehttp.Unrecorded(t.Context())
				if c.warm {
					if err := post(ctx, client, to); err != nil {
						t.Fatal(err)
					}
				}
				err := post(ctx, client, to)
				if err == nil || ledger.IsNotDone(err) != c.want {
					t.Errorf("%v is marked: %t", err, !c.want)
				}
			})
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The case "a repeat that is refused" is what it claims: the request has arrived, and the error is that of a dial.
func TestRepeatIsRefused(t *testing.T) {
	to, arrived := dies(t)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if err := post(t.Context(), client, to); err != nil {
		t.Fatal(err)
	}
	err := post(t.Context(), client, to)
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || dial.Op != "dial" || arrived.Load() != 2 {
		t.Errorf("%d requests have arrived, and the error is %v", arrived.Load(), err)
	}
}

// A marked error is a net.Error as before: clients of HTTP ask for that without errors.As.
func TestNotSentIsNetError(t *testing.T) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 1}).DialContext}
	defer transport.CloseIdleConnections()
	err := post(t.Context(), &http.Client{Transport: oncehttp.NotSent(transport)}, "http://"+closedPort)
	of, ok := errors.AsType[*url.Error](err)
	if !ok || !of.Timeout() || !ledger.IsNotDone(err) {
		t.Errorf("%v", err)
	}
}

// An effect of a service that is down has not happened: its turn fails, and no person is asked. If the server has read
// the request, a person is asked. A call of a model is marked alike.
func TestEffectOfServiceThatIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		url     string
		doubted bool
	}{
		"down": {"http://" + closedPort, false},
		"dies": {breaks(t), true},
	} {
		t.Run(name, func(t *testing.T) {
			transport := new(http.Transport)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: oncehttp.NotSent(transport)}
			_, kept, err := once(t, func(ctx context.Context, turn *Turn) error {
				_, err := orchestrator.Once(ctx, turn, "pay", func(ctx context.Context, _ string) (int, error) {
					return 1, post(ctx, client, c.url)
				}, nil)
				return err
			})
			if doubted := errors.Is(err, orchestrator.ErrSuspended); err == nil || doubted != c.doubted {
				t.Errorf("the turn ends with %v", err)
			}
			if len(kept) != 1 || (kept[0].State == ledger.Unknown) != c.doubted {
				t.Errorf("the effect is %+v", kept)
			}
			_, _, err = once(t, func(ctx context.Context, turn *Turn) error {
				recorded := &http.Client{Transport: oncehttp.New(nil).Transport(transport)}
				err := post(oncehttp.With(ctx, turn, "model"), recorded, c.url)
				if ledger.IsNotDone(err) == c.doubted {
					t.Errorf("the call of a model: %v", err)
				}
				return err
			})
			if err == nil {
				t.Error("the model has answered")
			}
		})
	}
}
