package flow_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A run that was started here knows no clock of the store yet. It wakes in time all the same.
func TestSleepUntilHere(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("until", 1, func(r *flow.Run, at time.Time) (any, error) {
			return nil, r.SleepUntil("nap", at)
		})
		e, _ := w.run(w.store, nil, def)
		time.Sleep(time.Minute)
		at := time.Now().Add(5 * time.Second)
		h, err := def.Start(w.Context(), workflow.NewClient(e.Front()), at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(w.Context()); err != nil {
			t.Error(err)
		}
		if late := time.Since(at); late < 0 || late > 2*time.Second {
			t.Errorf("it went on %v after its deadline", late)
		}
	})
}

// A hostile error has methods that panic, or that say yes to all.
type hostile struct{ yes bool }

func (h *hostile) Error() string {
	if h.yes {
		return "yes"
	}
	panic("Error")
}

func (h *hostile) Is(error) bool {
	if h.yes {
		return true
	}
	panic("Is")
}

func (h *hostile) As(any) bool {
	if h.yes {
		return false
	}
	panic("As")
}

func (h *hostile) Unwrap() error {
	if h.yes {
		return nil
	}
	panic("Unwrap")
}

type loud struct{}

func (loud) String() string { panic("String") }

func (loud) MarshalJSON() ([]byte, error) { panic("MarshalJSON") }

// What methods of a program's errors and values do ends no process, and decides nothing.
func TestHostile(t *testing.T) {
	for name, body := range map[string]func(r *flow.Run) (any, error){
		"body panics": func(*flow.Run) (any, error) { return nil, new(hostile) },
		"body yes":    func(*flow.Run) (any, error) { return nil, &hostile{yes: true} },
		"step panics": func(r *flow.Run) (any, error) {
			return nil, flow.Do(r, "a", func(context.Context) error { return new(hostile) })
		},
		"step yes": func(r *flow.Run) (any, error) {
			return nil, flow.Do(r, "a", func(context.Context) error { return &hostile{yes: true} })
		},
		"value":       func(*flow.Run) (any, error) { return loud{}, nil },
		"panic":       func(*flow.Run) (any, error) { panic(loud{}) },
		"panic error": func(*flow.Run) (any, error) { panic(new(hostile)) },
		"step value": func(r *flow.Run) (any, error) {
			return flow.Step(r, "a", func(context.Context) (any, error) { return loud{}, nil })
		},
		"branch": func(r *flow.Run) (any, error) {
			return flow.Go(r, "b", func(*flow.Run) (any, error) { panic(new(hostile)) }).Join()
		},
		"branch error": func(r *flow.Run) (any, error) {
			return flow.All(flow.Go(r, "b", func(*flow.Run) (any, error) { return nil, new(hostile) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.run(w.store, nil, flow.New("hostile", 1, func(r *flow.Run, _ any) (any, error) { return body(r) }))
				id := w.start("hostile", nil, nil)
				time.Sleep(time.Hour)
				if run := w.get(id); run.Status != workflow.Failed || run.Error == "" {
					t.Errorf("%s %q %q", run.Status, run.Hold, run.Error)
				}
			})
		})
	}
}
