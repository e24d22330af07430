package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
)

// Clients ask for refunds while every three seconds a process is killed. No turn that was acknowledged is lost, and no
// order is paid twice.
func TestSoak(t *testing.T) {
	t.Parallel()
	clients, lasts, pace := 10, 7*time.Second, "20ms"
	if os.Getenv("HOLDFAST_SOAK") != "" {
		clients, lasts, pace = 50, 3*time.Minute, "1ms"
	}
	for _, setting := range refundtest.Settings {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			c := refundtest.Config(t, setting)
			p := start(t, environment(c), "-demo", "-addr", "127.0.0.1:0", "-data", c.Dir, "-pace", pace)
			s := &soak{client: p.client(), acked: make(map[string]int), orders: make(map[string]int)}
			s.run(t, clients, lasts)
			s.judge(t)
		})
	}
}

type soak struct {
	client client

	mu     sync.Mutex // protects the following fields
	took   []time.Duration
	acked  map[string]int // turns by session
	orders map[string]int // refunds that were acknowledged, by order
	kills  int
}

// run lets the clients ask, and kills.
func (s *soak) run(t *testing.T, clients int, lasts time.Duration) {
	t.Helper()
	ending, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	// A turn that has begun is waited for.
	patience, cancel := context.WithTimeout(t.Context(), lasts+2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := 0; ending.Err() == nil; n++ {
				s.ask(t, patience, i, n)
			}
		})
	}
	for pause(ending, 3*time.Second) == nil {
		s.kill(t)
	}
	all.Wait()
}

func (s *soak) ask(t *testing.T, ctx context.Context, i, n int) {
	session, order := fmt.Sprintf("client-%d", i), fmt.Sprintf("B-%d", 1000*(i+1)+n)
	began := time.Now()
	said, err := s.client.insist(ctx, session, order, "I want a refund for "+order)
	if err != nil || said.Reply.Order != order || said.Reply.Receipt == "" || said.Turn != n {
		t.Errorf("%s, turn %d: %+v, %v", session, n, said, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, time.Since(began))
	s.acked[session]++
	s.orders[order]++
}

// kill kills one of the workers that serve.
func (s *soak) kill(t *testing.T) {
	name := []string{"a", "b"}[rand.IntN(2)]
	status, err := s.client.call(t.Context(), http.MethodPost, "/app/workers/"+name, "",
		map[string]string{"do": "kill"}, nil)
	if err != nil {
		t.Error(err)
	}
	if status == http.StatusOK {
		s.kills++
	}
}

func (s *soak) judge(t *testing.T) {
	t.Helper()
	for session, n := range s.acked {
		now, err := s.client.standing(t.Context(), session)
		if err != nil || now.Turn != n-1 || now.Run != nil {
			t.Errorf("%s has %+v, %v, and %d turns were acknowledged", session, now, err, n)
		}
	}
	var paid struct {
		Payments []struct {
			Order string
			Asked int
		}
	}
	s.client.must(t, http.StatusOK, http.MethodGet, "/app/payments", "", nil, &paid)
	times := make(map[string]int)
	for _, p := range paid.Payments {
		times[p.Order]++
	}
	for order := range s.orders {
		if times[order] != 1 {
			t.Errorf("order %s was paid %d times", order, times[order])
		}
	}
	if len(times) != len(s.orders) {
		t.Errorf("%d orders were paid, and %d acknowledged", len(times), len(s.orders))
	}
	slices.Sort(s.took)
	t.Logf("%d turns, %d kills, 0 lost: median %v, p99 %v", len(s.took), s.kills, s.took[len(s.took)/2],
		s.took[len(s.took)*99/100])
	if s.kills == 0 || len(s.took) < len(s.acked) {
		t.Errorf("%d kills, %d turns", s.kills, len(s.took))
	}
}
