package flow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// dawdles are bodies that take too long, by what they do.
var dawdles = map[string]func(r *flow.Run) error{
	"sleep": func(r *flow.Run) error { return r.Sleep("nap", 10*time.Hour) },
	"wait": func(r *flow.Run) error {
		_, err := flow.Wait[int](r, "answer")
		return err
	},
	"wait with a timeout": func(r *flow.Run) error {
		_, err := flow.Wait[int](r, "answer", flow.Timeout(2*time.Hour))
		return err
	},
	"step": func(r *flow.Run) error {
		return flow.Do(r, "slow", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	},
	"body": func(r *flow.Run) error {
		<-r.Context().Done()
		return r.Context().Err()
	},
	"retries": func(r *flow.Run) error {
		return flow.Do(r, "fails", func(context.Context) error {
			return flow.RetryAfter(errors.New("not yet"), 7*time.Minute)
		}, flow.Retry{Attempts: 1000})
	},
	"branches": func(r *flow.Run) error {
		one := flow.Go(r, "one", func(r *flow.Run) (int, error) { return 1, r.Sleep("nap", 30*time.Minute) })
		two := flow.Go(r, "two", func(r *flow.Run) (int, error) {
			return flow.Step(r, "slow", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		})
		_, err := flow.All(one, two)
		return err
	},
	"steps": func(r *flow.Run) error {
		for _, name := range []string{"a", "b", "c", "d"} {
			err := flow.Do(r, name, func(context.Context) error {
				time.Sleep(20*time.Minute - time.Second) // whatever the context says
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// Y99: a run that is not over by its deadline fails, whatever it does, and says why. Nothing of it goes on.
func TestDeadline(t *testing.T) {
	for name, body := range dawdles {
		for _, from := range []string{"front", "store"} {
			t.Run(name+" from the "+from, func(t *testing.T) {
				inBubble(t, func(w *world) {
					deferred, went := 0, false
					def := flow.New("dawdles", 1, func(r *flow.Run, _ any) (int, error) {
						defer func() { deferred++ }()
						if err := body(r); err != nil {
							return 0, err
						}
						if err := r.Sleep("more", time.Minute); err != nil {
							return 0, err
						}
						went = true
						return 1, nil
					}, flow.Deadline(time.Hour))
					e, _ := w.run(w.store, nil, def)
					time.Sleep(time.Second)
					c := w.Client
					if from == "front" {
						c = workflow.NewClient(e.Front())
					}
					began := time.Now()
					h, err := def.Start(w.Context(), c, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					_, err = h.Result(w.Context())
					took := time.Since(began)
					if !errors.Is(err, flow.ErrDeadline) || !strings.Contains(err.Error(), "longer than its deadline") {
						t.Errorf("the run ends with %v", err)
					}
					most := time.Hour + 2*time.Second
					if name == "steps" { // the last one heeds no context
						most += 20 * time.Minute
					}
					if took < time.Hour || took > most || deferred == 0 || went {
						t.Errorf("it ends after %v, %d deferred calls, it went on: %v", took, deferred, went)
					}
					if name == "steps" && len(w.journal(h.ID)) != 4 {
						t.Errorf("its journal is %v", names(w.journal(h.ID)))
					}
				})
			})
		}
	}
}

// A run that is over in time is not disturbed, also after a deploy and a takeover. Its deadline counts from its start.
func TestDeadlineAcross(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("in-time", 1, func(r *flow.Run, d time.Duration) (string, error) {
			if err := r.Sleep("nap", d); err != nil {
				return "", err
			}
			return "in time", flow.Do(r, "work", func(ctx context.Context) error {
				select {
				case <-time.After(15 * time.Minute):
				case <-ctx.Done():
				}
				return ctx.Err()
			})
		}, flow.Deadline(time.Hour))
		_, stop := w.run(w.process(), nil, def)
		good, late := w.start("in-time", 35*time.Minute, nil), w.start("in-time", 50*time.Minute, nil)
		paused := w.start("in-time", time.Minute, nil)
		delayed := w.start("in-time", time.Minute, &workflow.StartOptions{Delay: 2 * time.Hour})
		time.Sleep(10 * time.Minute)
		stop()
		if _, err := w.Pause(w.Context(), paused); err != nil {
			t.Error(err)
		}
		cut := w.process()
		w.run(cut, nil, def)
		time.Sleep(30 * time.Minute) // in the step of the first
		cut.cut(true)
		w.run(w.process(), nil, def)
		time.Sleep(10 * time.Minute)
		w.completed(good, `"in time"`)
		for _, id := range []string{late, delayed} {
			if r := w.await(id); r.Status != workflow.Failed || r.Error != flow.ErrDeadline.Error() {
				t.Errorf("a run that is late is %+v", r)
			}
		}
		if r := w.get(paused); r.Status != workflow.Running {
			t.Errorf("a run that is paused is %+v", r)
		}
		if _, err := w.Resume(w.Context(), paused); err != nil {
			t.Error(err)
		}
		if r := w.await(paused); r.Error != flow.ErrDeadline.Error() || len(w.journal(paused)) > 2 {
			t.Errorf("a run that was paused for too long is %+v", r)
		}
		if n := len(w.journal(delayed)); n != 0 {
			t.Errorf("a run that was due too late has %d rows", n)
		}
	})
}
