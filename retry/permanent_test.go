package retry_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

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
