package ctxcause_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

func TestOf(t *testing.T) {
	if err := ctxcause.Of(t.Context()); err != nil {
		t.Errorf("while it lasts: %v", err)
	}
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ctxcause.Of(plain); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	reason := errors.New("reason")
	caused, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(reason)
	if err := ctxcause.Of(caused); !errors.Is(err, reason) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled with a cause: %v", err)
	}
}
