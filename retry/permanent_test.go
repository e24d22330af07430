package retry_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

func TestPermanent(t *testing.T) {
	marked := retry.Permanent(io.EOF)
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"plain", io.EOF, false},
		{"marked", marked, true},
		{"wrapped", fmt.Errorf("read: %w", marked), true},
		{"joined", errors.Join(io.ErrNoProgress, marked), true},
		{"marked twice", retry.Permanent(marked), true},
		{"only quoted", fmt.Errorf("read: %s", marked), false},
	} {
		if got := retry.IsPermanent(c.err); got != c.want {
			t.Errorf("%s: IsPermanent = %v", c.name, got)
		}
	}
}

func TestPermanentKeepsTheError(t *testing.T) {
	if err := retry.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) = %v", err)
	}
	err := retry.Permanent(fmt.Errorf("read: %w", io.EOF))
	if !errors.Is(err, io.EOF) || err.Error() != "read: EOF" {
		t.Errorf("got %v", err)
	}
}

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want time.Duration
		ok   bool
	}{
		{"nil", nil, 0, false},
		{"nothing to mark", retry.After(nil, time.Second), 0, false},
		{"plain", io.EOF, 0, false},
		{"marked", retry.After(io.EOF, time.Second), time.Second, true},
		{"wrapped", fmt.Errorf("ask: %w", retry.After(io.EOF, time.Second)), time.Second, true},
		{"negative", retry.After(io.EOF, -1), 0, true},
		{"the outer mark counts", retry.After(retry.After(io.EOF, 1), 2), 2, true},
		{"permanent too", retry.Permanent(retry.After(io.EOF, 1)), 1, true},
	} {
		if got, ok := retry.AfterOf(c.err); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v", c.name, got, ok)
		}
	}
	if err := retry.After(io.EOF, 1); !errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Errorf("got %v", err)
	}
}
