package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
)

func start(t *testing.T, file string, timeout time.Duration) (*provider.Server, *provider.Client) {
	t.Helper()
	s, err := provider.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	s.Delay = 50 * time.Millisecond
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, provider.NewClient(server.URL, timeout)
}

// In each mode a refund is paid or not, is answered or not, and can be asked about or not.
func TestModes(t *testing.T) {
	t.Parallel()
	s, c := start(t, filepath.Join(t.TempDir(), "payments.db"), 300*time.Millisecond)
	for _, tt := range []struct {
		mode                 provider.Mode
		paid, answers, tells bool
		definite             error
	}{
		{provider.OK, true, true, true, nil},
		{provider.Slow, true, true, true, nil},
		{provider.Decline, false, false, true, provider.ErrDeclined},
		{provider.Fail, false, false, false, nil},
		{provider.Timeout, true, false, false, nil},
		{provider.Lost, true, false, true, nil},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			if err := c.SetMode(t.Context(), tt.mode); err != nil {
				t.Fatal(err)
			}
			if mode, err := c.Mode(t.Context()); mode != tt.mode || err != nil {
				t.Errorf("the mode is %q, %v", mode, err)
			}
			key := "key-" + string(tt.mode)
			receipt, err := c.Refund(t.Context(), key, "A-1", 100)
			if (err == nil) != tt.answers || (receipt != "") != tt.answers {
				t.Errorf("Refund returns %q, %v", receipt, err)
			}
			if tt.definite != nil && !errors.Is(err, tt.definite) {
				t.Errorf("Refund returns %v, want %v", err, tt.definite)
			}
			found, landed, err := c.Find(t.Context(), key)
			if (err == nil) != tt.tells || landed != (tt.tells && tt.paid) {
				t.Errorf("Find returns %q, %t, %v", found, landed, err)
			}
			s.SetMode(provider.OK)
			if _, landed, err := c.Find(t.Context(), key); landed != tt.paid || err != nil {
				t.Errorf("later Find says %t, %v", landed, err)
			}
		})
	}
	if err := c.SetMode(t.Context(), "generous"); err == nil {
		t.Error("the provider takes a mode that it does not know")
	}
}

// A key is paid once, also after the provider was started anew.
func TestOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "payments.db")
	var receipts []string
	for range 2 {
		s, err := provider.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(s)
		c := provider.NewClient(server.URL, 0)
		for range 2 {
			receipt, err := c.Refund(t.Context(), "key", "A-1", 100)
			if err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, receipt)
		}
		server.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, c := start(t, file, 0)
	all, err := c.Payments(t.Context())
	if err != nil || len(all) != 1 || all[0].Asked != 4 || all[0].Cents != 100 || all[0].Order != "A-1" {
		t.Errorf("payments %+v, %v", all, err)
	}
	for _, receipt := range receipts {
		if receipt != all[0].Receipt {
			t.Errorf("receipts %q", receipts)
		}
	}
}

// What is no refund is refused.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	_, c := start(t, filepath.Join(t.TempDir(), "payments.db"), 0)
	for _, tt := range []struct {
		key, order string
		cents      int
	}{{"", "A-1", 1}, {"k", "", 1}, {"k", "A-1", 0}} {
		if receipt, err := c.Refund(t.Context(), tt.key, tt.order, tt.cents); err == nil {
			t.Errorf("%+v: %s", tt, receipt)
		}
	}
	if all, err := c.Payments(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestOpenNowhere(t *testing.T) {
	t.Parallel()
	if s, err := provider.Open(t.Context(), filepath.Join(t.TempDir(), "no", "where")); err == nil {
		_ = s.Close()
		t.Error("it opens a file in a folder that is not there")
	}
}

// A running provider answers to names of loopback only. Its file is for its owner alone.
func TestStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "payments.db")
	if err := os.WriteFile(file, nil, 0o644); err != nil { // an earlier version has let all read it
		t.Fatal(err)
	}
	p, err := provider.Start(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for host, want := range map[string]int{"": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/payments", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("for %q the status is %d, want %d", host, answer.StatusCode, want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
