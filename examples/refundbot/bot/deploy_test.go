package bot_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// halts are the places where a deploy stops a turn, and what makes a bot halt there.
func halts() map[string]func(*bot.Options) chan struct{} {
	model := func(at func(agent.Request) bool) func(*bot.Options) chan struct{} {
		return func(o *bot.Options) chan struct{} {
			reached := make(chan struct{})
			o.Model = spy{o.Model, func(ctx context.Context, r agent.Request) error {
				if !at(r) {
					return nil
				}
				close(reached)
				<-ctx.Done()
				return context.Cause(ctx)
			}}
			return reached
		}
	}
	return map[string]func(*bot.Options) chan struct{}{
		"first reply": model(func(r agent.Request) bool { return !seen(r, "order") }),
		"customer": func(o *bot.Options) chan struct{} {
			stuck := stuckShop{o.Shop, make(chan struct{})}
			o.Shop = stuck
			return stuck.reached
		},
		"last reply": model(func(r agent.Request) bool { return seen(r, "refund") }),
	}
}

// A deploy comes in the middle of a turn, and the other version finishes it. Then the deploy is taken back.
func TestDeploy(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		for at, halt := range halts() {
			t.Run(at, func(t *testing.T) {
				session := "deploy/" + at
				o := s.options()
				reached := halt(&o)
				handOff(t, newBot(s, bot.New, o).Refunds, session, "I want a refund for A-1007", reached)
				two := newBot(s, bot.New2, s.options()).Refunds
				if now := finish(t, two, session); now.Case.Receipt == "" || now.Currency != "EUR" {
					t.Errorf("%+v", now)
				}
				o = s.options()
				reached = halt(&o)
				handOff(t, newBot(s, bot.New2, o).Refunds, session, "I want a refund for A-1013", reached)
				if now := finish(t, s.bot.Refunds, session); now.Receipt == "" || len(now.Paid) != 2 {
					t.Errorf("%+v", now)
				}
				s.says(session, "Hello", "Hello")
			})
		}
		s.pays.WantPaid(t, "A-1007", "A-1013")
	})
}

// handOff begins a turn, and shuts its bot down when it has come to a place.
func handOff[C any](t *testing.T, a *agent.Agent[C], session, text string, reached chan struct{}) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := a.Say(t.Context(), session, agent.Text(text), nil)
		done <- err
	}()
	select {
	case <-reached:
	case err := <-done:
		t.Fatalf("the turn ended before: %v", err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Bot().Shutdown(now); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatalf("%v", err)
	}
}

func finish[C any](t *testing.T, a *agent.Agent[C], session string) C {
	t.Helper()
	res, err := a.Bot().Resume(t.Context(), session, nil)
	if err != nil || res.State.Status != agent.Completed || res.State.Output == "" {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.State.Custom
}
