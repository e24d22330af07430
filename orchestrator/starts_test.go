package orchestrator_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An itinerary is a bot that notes which of its functions run. A test can interrupt it at one of them.
type itinerary struct {
	ran []string
	at  string
	do  func()
}

func (i *itinerary) pass(place string) {
	i.ran = append(i.ran, place)
	if place == i.at {
		i.do()
	}
}

func (i *itinerary) definition(fanOut bool) Def {
	work := func(place string) Intent {
		return Intent{
			Run:   func(context.Context, *Turn) error { i.pass(place); return nil },
			Retry: retry.Policy{Attempts: 2},
		}
	}
	d := Def{
		Name: "itinerary", Iterate: true,
		Begin:    func(context.Context, *Turn) error { i.pass("begin"); return nil },
		Route:    func(context.Context, *Turn) (Next, error) { i.pass("route"); return orchestrator.To("intent"), nil },
		Intents:  Intents{"intent": work("intent")},
		Evaluate: func(context.Context, *Turn) (Next, error) { i.pass("evaluate"); return orchestrator.End, nil },
		Deliver:  func(context.Context, *Result) error { i.pass("deliver"); return nil },
	}
	if fanOut {
		d.Intents["other"] = Intent{Run: func(context.Context, *Turn) error { return nil }}
		d.Route = func(context.Context, *Turn) (Next, error) {
			i.pass("route")
			return orchestrator.To("intent", "other"), nil
		}
		d.Merge = func(base State, _ []State) (State, error) { i.pass("merge"); return base, nil }
	}
	return d
}

// If the lease has expired or the caller is gone, no function of the bot starts: neither the first attempt of an
// intent, nor a later function.
func TestNothingStartsLate(t *testing.T) {
	const ttl = time.Second
	for name, c := range map[string]struct {
		fanOut bool
		path   []string
	}{
		"one":     {false, []string{"begin", "route", "intent", "evaluate"}},
		"fan-out": {true, []string{"begin", "route", "intent", "merge", "evaluate"}},
	} {
		for n, at := range c.path {
			t.Run(name+", expired in "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					i := &itinerary{at: at, do: func() { time.Sleep(2 * ttl) }}
					w := worldOf(unrenewed(new(checkpoint.Memory)), new(snapshot.Memory))
					bot := w.Start(t, i.definition(c.fanOut), Options{Limits: orchestrator.Limits{LeaseTTL: ttl}})
					_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
					wantErr(t, err, lock.ErrExpired)
					if want := c.path[:n+1]; !slices.Equal(i.ran, want) {
						t.Errorf("ran %q, want %q", i.ran, want)
					}
				})
			})
			if at == "evaluate" {
				// The turn settles: the end of the caller's context does not prevent it.
				continue
			}
			t.Run(name+", left in "+at, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				i := &itinerary{at: at, do: cancel}
				_, err := newWorld().Start(t, i.definition(c.fanOut), Options{}).Execute(ctx, "s", Input{Text: "a"},
					nil)
				wantErr(t, err, context.Canceled)
				if want := c.path[:n+1]; !slices.Equal(i.ran, want) {
					t.Errorf("ran %q, want %q", i.ran, want)
				}
			})
		}
	}
}

// If a lease expires while a turn is delivered, the next turn is neither delivered nor summarized.
func TestNothingFollowsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		store := &checkpoint.Memory{}
		d := echo()
		delivered := 0
		d.Deliver = func(context.Context, *Result) error {
			if delivered++; delivered == 1 {
				time.Sleep(2 * ttl)
			}
			return nil
		}
		summarized := 0
		bot := worldOf(unrenewed(store), nil).Start(t, d, Options{
			Limits: orchestrator.Limits{LeaseTTL: ttl},
			Compaction: orchestrator.Compaction{
				After: 1, Keep: 1,
				Run: func(context.Context, orchestrator.Range) (orchestrator.Usage, error) {
					summarized++
					return orchestrator.Usage{}, nil
				},
			},
		})
		execute(t, bot, Input{Text: "a"})
		if delivered != 1 || summarized != 0 {
			t.Errorf("delivered %d times, summarized %d", delivered, summarized)
		}
	})
}
