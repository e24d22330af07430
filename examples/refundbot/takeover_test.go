//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// inFlight is how many turns are in flight when their process ends.
const inFlight = 20

// A process ends in the middle of twenty refunds. Another process takes over all of them soon, as clients see it who
// ask again, and each order is paid once.
func TestTakeover(t *testing.T) {
	for name, end := range map[string]struct {
		signal syscall.Signal
		most   time.Duration
	}{"kill -9": {syscall.SIGKILL, 8 * time.Second}, "SIGTERM": {syscall.SIGTERM, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, c stores.Config, pays refundtest.Provider) {
				rounds := min(rounds(), 3) // a busy machine may be slow once
				var orders []string
				for round := range rounds {
					worst := takeOver(t, c, pays, end.signal, round)
					for i := range inFlight {
						orders = append(orders, orderOf(round, i))
					}
					t.Logf("%s: %d of %d turns are taken over, the last after %v", name, inFlight, inFlight, worst)
					if worst <= end.most {
						break
					}
					if round == rounds-1 {
						late(t, "it took %v, want %v", worst, end.most)
					}
				}
				pays.WantPaid(t, orders...)
			})
		})
	}
}

func orderOf(round, i int) string { return fmt.Sprintf("B-%d", 1000+100*round+i) }

// takeOver returns how long the slowest turn had no owner that lives.
func takeOver(
	t *testing.T, c stores.Config, pays refundtest.Provider, signal syscall.Signal, round int,
) (worst time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	first := service(t, c, pays, "-grace=100ms", "-pace=100ms")
	second := service(t, c, pays, "-grace=100ms", "-pace=50ms")
	pays.SetMode(provider.Timeout) // no payment ends
	current := make(chan struct{}) // closed when clients turn to the second process
	var clients, taken sync.WaitGroup
	session := func(i int) string { return fmt.Sprintf("s-%d-%d", round, i) }
	for i := range inFlight {
		clients.Go(func() {
			dying, end := context.WithCancel(ctx)
			defer end()
			context.AfterFunc(ctx, end)
			go func() { <-current; end() }()
			text := "I want a refund for " + orderOf(round, i)
			if _, err := first.client().insist(dying, session(i), "key", text); err == nil {
				t.Error("a turn was too fast")
			}
			said, err := second.client().insist(ctx, session(i), "key", text)
			if err != nil || said.Reply.Receipt == "" {
				t.Errorf("session %d: %+v, %v", i, said, err)
			}
		})
	}
	for i := range inFlight {
		awaitOwner(ctx, t, second, session(i), first.cmd.Process.Pid)
	}
	// In its first quarter of a second a process leaves no sign that it lives.
	awaitBeats(ctx, t, second.client(), session(0))
	began := time.Now()
	if err := first.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	pays.SetMode(provider.OK)
	close(current)
	var mu sync.Mutex
	for i := range inFlight {
		taken.Go(func() {
			awaitOwner(ctx, t, second, session(i), second.cmd.Process.Pid)
			mu.Lock()
			defer mu.Unlock()
			worst = max(worst, time.Since(began))
		})
	}
	taken.Wait()
	clients.Wait()
	return worst
}
