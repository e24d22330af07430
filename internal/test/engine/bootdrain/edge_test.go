package bootdrain_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
)

// A run that takes long does not keep the watch from other runs.
func TestWatchBehindSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := &script{outcomes: map[string]string{"slow": "settled"}}
		found := time.Duration(0)
		start := time.Now()
		bot.recover = func(ctx context.Context, session string) {
			switch session {
			case "slow":
				select {
				case <-time.After(30 * time.Minute):
				case <-ctx.Done():
				}
			case "late":
				if found == 0 {
					found = time.Since(start)
				}
			}
		}
		time.AfterFunc(time.Minute, func() {
			bot.mu.Lock()
			defer bot.mu.Unlock()
			bot.outcomes["late"] = "settled"
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_ = bootdrain.Watch(ctx, bot, &bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
		if found == 0 || found > 2*time.Minute {
			t.Errorf("a run that was there after a minute was found after %v", found)
		}
	})
}

// The longest Every does no harm.
func TestWatchNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			bot := &script{outcomes: map[string]string{"a": "held"}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			bot.recover = func(context.Context, string) {
				if len(bot.calls) > 1000 {
					cancel()
				}
			}
			_ = bootdrain.Watch(ctx, bot,
				&bootdrain.Options{Every: math.MaxInt64, Logger: slog.New(slog.DiscardHandler)})
			cancel()
			if n := bot.passes[true]; n > 1 {
				t.Fatalf("%d passes over all in a minute", n)
			}
		}
	})
}

// After an outage the watch starts as many goroutines as it has places, not as many as there are runs.
func TestWatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 20_000
		bot := &script{outcomes: make(map[string]string)}
		for i := range runs {
			bot.outcomes[fmt.Sprint(i)] = "held"
		}
		bot.recover = func(ctx context.Context, _ string) { <-ctx.Done() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := bubble.Goroutines(t)
		time.AfterFunc(30*time.Second, func() {
			if n := bubble.Goroutines(t) - before; n > 100 {
				t.Errorf("%d goroutines for %d runs", n, runs)
			}
			cancel()
		})
		_ = bootdrain.Watch(ctx, bot, &bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
	})
}
