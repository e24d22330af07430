package bot_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// halts are the places where a deploy stops a turn, and what makes a bot halt there.
func (s *shop) halts() map[string]func(*bot.Options) chan struct{} {
	return map[string]func(*bot.Options) chan struct{}{
		"classify": func(o *bot.Options) chan struct{} {
			m := stuck{o.Model, "classify", make(chan struct{})}
			o.Model = m
			return m.reached
		},
		"customer": func(o *bot.Options) chan struct{} {
			m := stuckShop{o.Shop, make(chan struct{})}
			o.Shop = m
			return m.reached
		},
		"compose": func(o *bot.Options) chan struct{} {
			m := stuck{o.Model, "compose", make(chan struct{})}
			o.Model = m
			return m.reached
		},
	}
}

// A deploy comes in the middle of a turn, and the other version finishes it. Then the deploy is taken back.
func TestDeploy(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		for at, halt := range s.halts() {
			t.Run(at, func(t *testing.T) {
				o := s.options()
				reached := halt(&o)
				handOff(t, newBot(s, bot.Definition(o), o), "deploy/"+at, "I want a refund for A-1007", reached)
				two := newBot(s, bot.Definition2(s.options()), s.options())
				finish(t, two, "deploy/"+at, func(st *bot.State2) *bot.State { return &st.Case })

				o = s.options()
				reached = halt(&o)
				handOff(t, newBot(s, bot.Definition2(o), o), "deploy/"+at, "I want a refund for A-1013", reached)
				finish(t, s.bot, "deploy/"+at, func(st *bot.State) *bot.State { return st })
				s.says("deploy/"+at, "Hello", "Hello")
			})
		}
		s.pays.WantPaid(t, "A-1007", "A-1013")
	})
}

// handOff begins a turn, and shuts its bot down when it has come to a place.
func handOff[S any](t *testing.T, b *orchestrator.Orchestrator[S], session, text string, reached chan struct{}) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := b.Execute(t.Context(), session, orchestrator.Input{Text: text}, nil)
		done <- err
	}()
	select {
	case <-reached:
	case err := <-done:
		t.Fatalf("the turn ended before: %v", err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Shutdown(now); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatalf("%v", err)
	}
}

func finish[S any](t *testing.T, b *orchestrator.Orchestrator[S], session string, at func(*S) *bot.State) {
	t.Helper()
	res, err := b.Resume(t.Context(), session, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := at(&res.State); s.Decision != bot.Paid || s.Customer == nil || s.Reply == "" {
		t.Errorf("%+v", s)
	}
}
