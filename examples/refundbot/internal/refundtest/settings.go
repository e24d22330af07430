// Package refundtest has what the tests of the refund bot share: the three settings of its stores, and a payment
// provider. Only tests import it.
package refundtest

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Settings are the names of the settings.
var Settings = []string{"sqlite", "postgres", "postgres+redis"}

// Config returns a fresh place for the stores of a setting. It skips the test if a server is missing.
func Config(tb testing.TB, name string) stores.Config {
	tb.Helper()
	c := stores.Config{Dir: tb.TempDir()}
	if name != "sqlite" {
		c.DatabaseURL = testenv.PostgresURL(tb)
	}
	if name == "postgres+redis" {
		_, c.RedisPrefix = testenv.Redis(tb)
		c.RedisURL = os.Getenv("HOLDFAST_REDIS")
	}
	return c
}

// Open opens the stores of a process. They are closed when the test ends.
func Open(tb testing.TB, c stores.Config) *stores.Stores {
	tb.Helper()
	s, err := stores.Open(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := s.Prepare(tb.Context(), true); err != nil {
		tb.Fatal(err)
	}
	return s
}

// A Provider is a payment provider, and where it is.
type Provider struct {
	*provider.Server
	URL string
}

// StartProvider starts a payment provider until the test ends.
func StartProvider(tb testing.TB) Provider {
	tb.Helper()
	s, err := provider.Open(tb.Context(), filepath.Join(tb.TempDir(), "payments.db"))
	if err != nil {
		tb.Fatal(err)
	}
	s.Delay = 300 * time.Millisecond
	server := httptest.NewServer(s)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return Provider{s, server.URL}
}

// Client returns a client that waits as long as a busy machine may take.
func (p Provider) Client() *provider.Client { return provider.NewClient(p.URL, 20*time.Second) }

// Impatient returns a client that does not wait long.
func (p Provider) Impatient() *provider.Client {
	return provider.NewClient(p.URL, 200*time.Millisecond)
}

// WantPaid fails the test unless each order was paid once, and nothing else was.
func (p Provider) WantPaid(tb testing.TB, orders ...string) {
	tb.Helper()
	all, err := p.Payments(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	paid := make(map[string]int)
	for _, one := range all {
		paid[one.Order]++
	}
	for _, order := range orders {
		if paid[order] != 1 {
			tb.Errorf("order %s was paid %d times", order, paid[order])
		}
		delete(paid, order)
	}
	if len(paid) > 0 {
		tb.Errorf("paid too: %v", paid)
	}
}
