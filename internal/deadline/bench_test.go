package deadline_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// BenchmarkIn compares a Context with that of package context, for a call that never waits: see decision 35.
func BenchmarkIn(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("deadline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx := deadline.In(parent, time.Minute, nil)
			_ = ctx.Err()
			ctx.Cancel()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithTimeout(parent, time.Minute)
			_ = ctx.Err()
			cancel()
		}
	})
}
