package flow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A process that has died is noticed once. Its beats are forgotten, and nobody looks for it any more.
func TestDeadOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		wait := flow.New("wait", 1, func(r *flow.Run, n int) (int, error) {
			return flow.Step(r, "long", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return n, nil
			})
		})
		first := w.process()
		e, _ := w.run(first, nil, wait)
		time.Sleep(time.Second)
		if _, err := workflow.NewClient(e.Front()).Start(w.Context(), "wait", 1, nil); err != nil {
			t.Fatal(err)
		}
		var log lines
		quick := flow.New("wait", 1, func(r *flow.Run, n int) (int, error) { return n, nil })
		second := w.process()
		w.run(second, &flow.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, quick)
		time.Sleep(5 * time.Second)
		first.cut(true)
		time.Sleep(10 * time.Minute)
		beats, err := w.store.Beat(w.Context(), "")
		if err != nil || len(beats) > 0 {
			t.Errorf("%d processes beat still, %v", len(beats), err)
		}
		if n := log.count("process stands still"); n != 1 {
			t.Errorf("the process was noticed %d times", n)
		}
		before := second.count("beat")
		time.Sleep(10 * time.Minute)
		if n := second.count("beat") - before; n > 30 {
			t.Errorf("%d looks in ten minutes", n)
		}
	})
}

// Y19, Y24, Y26: a process that is cut off loses its runs to another process within DeadAfter and a look. It writes
// nothing any more when it is back, and no step of the other process is called twice.
func TestTakeover(t *testing.T) {
	inBubble(t, func(w *world) {
		var cut, other atomic.Int64
		work := func(calls *atomic.Int64, d time.Duration) *flow.Workflow[int, int] {
			return flow.New("taken", 1, func(r *flow.Run, n int) (int, error) {
				for _, name := range []string{"a", "b", "c"} {
					if _, err := flow.Step(r, name, func(ctx context.Context) (int, error) {
						calls.Add(1)
						time.Sleep(d) // whatever ctx says
						return n, nil
					}); err != nil {
						return 0, err
					}
				}
				return n, nil
			})
		}
		first := w.process()
		e, _ := w.run(first, nil, work(&cut, 10*time.Second))
		time.Sleep(time.Second)
		c := workflow.NewClient(e.Front())
		var ids []string
		for i := range 20 {
			s, err := c.Start(w.Context(), "taken", i, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.ID)
		}
		w.run(w.process(), nil, work(&other, time.Millisecond))
		time.Sleep(15 * time.Second) // in step b
		first.cut(true)
		began := time.Now()
		for i, id := range ids {
			w.completed(id, fmt.Sprint(i))
		}
		if d := time.Since(began); d > 7*time.Second {
			t.Errorf("taken over after %v", d)
		}
		if n := other.Load(); n != 40 {
			t.Errorf("%d steps in the other process", n)
		}
		first.cut(false)
		time.Sleep(time.Minute)
		for i, id := range ids {
			w.completed(id, fmt.Sprint(i))
			if n := len(w.journal(id)); n != 3 {
				t.Errorf("%d rows", n)
			}
		}
		if n := cut.Load(); n != 40 {
			t.Errorf("%d steps in the process that was cut off", n)
		}
	})
}

// A claim, a start or a write whose answer is lost: the process gets to know what it owns, nothing runs twice, and no
// run is stuck.
func TestLostAnswers(t *testing.T) {
	for _, what := range []string{"claim", "again", "start", "write", "lease", "beat"} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var calls, lost atomic.Int64
				dice := rand.New(rand.NewPCG(1, 2)) // for the one goroutine that claims at a time
				p := w.process()
				p.after = func(call string) error {
					switch {
					case what == "again" && (call == what || call == "claim"): // also two in a row
						if dice.IntN(2) == 0 {
							lost.Add(1)
							return errCut
						}
					case call == what && lost.Add(1)%2 == 1:
						return errCut
					}
					return nil
				}
				e, _ := w.run(p, nil, flow.New("lost", 1, func(r *flow.Run, n int) (int, error) {
					for _, name := range []string{"a", "b"} {
						count := func(context.Context) error { calls.Add(1); return nil }
						if err := flow.Do(r, name, count); err != nil {
							return 0, err
						}
						if err := r.Sleep("nap-"+name, time.Minute); err != nil {
							return 0, err
						}
					}
					return n, nil
				}))
				time.Sleep(time.Second)
				c := workflow.NewClient(e.Front())
				var ids []string
				for i := range 10 {
					for {
						s, err := c.Start(w.Context(), "lost", i, &workflow.StartOptions{IdempotencyKey: fmt.Sprint(i)})
						if err == nil {
							ids = append(ids, s.ID)
							break
						}
						if !errors.Is(err, errCut) {
							t.Fatal(err)
						}
					}
				}
				began, limit := time.Now(), 3*time.Minute
				if what == "again" {
					limit = 20 * time.Minute // a minute for each loss, and a coin that falls on one side ten times
				}
				for i, id := range ids {
					w.completed(id, fmt.Sprint(i))
				}
				if d := time.Since(began); d > limit || calls.Load() != 20 || lost.Load() < 2 {
					t.Errorf("%d calls in %v, %d answers", calls.Load(), d, lost.Load())
				}
			})
		})
	}
}

// A store that refuses, or that is away, fails no run.
func TestStoreAway(t *testing.T) {
	for name, away := range map[string]error{"away": errCut, "refused": store.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				p, calls := w.process(), 0
				var until atomic.Int64
				p.before = func(string) error {
					if time.Now().UnixNano() < until.Load() {
						return away
					}
					return nil
				}
				w.run(p, nil, flow.New("away", 1, func(r *flow.Run, _ any) (int, error) {
					for i := range 5 {
						if _, err := flow.Step(r, fmt.Sprint(i), func(context.Context) (int, error) {
							calls++
							until.Store(time.Now().Add(time.Hour).UnixNano())
							return i, nil
						}); err != nil {
							return 0, err
						}
					}
					return calls, nil
				}))
				w.completed(w.start("away", nil, nil), "5")
			})
		})
	}
}

// A run that ends its process without progress is held after five owners, and names that. Progress in between counts
// anew, and so does a deploy that gives its runs back.
func TestCrashes(t *testing.T) {
	inBubble(t, func(w *world) {
		def := func(stuck bool) *flow.Workflow[any, string] {
			return flow.New("crashes", 1, func(r *flow.Run, _ any) (string, error) {
				for i := range 4 {
					if err := flow.Do(r, fmt.Sprint(i), func(ctx context.Context) error {
						if stuck || i%2 == 1 {
							<-ctx.Done()
							return ctx.Err()
						}
						return nil
					}); err != nil {
						return "", err
					}
				}
				return "done", nil
			})
		}
		id := w.start("crashes", nil, nil)
		for i := range 5 {
			p := w.process()
			w.run(p, nil, def(true))
			time.Sleep(20 * time.Second)
			if run := w.get(id); run.Hold != "" || run.Owner == "" {
				t.Fatalf("after %d processes: %+v", i, run)
			}
			p.cut(true)
		}
		w.run(w.process(), nil, def(true))
		time.Sleep(time.Minute)
		if run := w.get(id); run.Hold != workflow.Crashed || run.Error != workflow.CrashError(5) {
			t.Errorf("%+v", run)
		}
	})
}

// A deploy: Run waits for steps, gives the runs back, and another process goes on at once. No step that has ended is
// called again, and a step that was ended for the deploy has used no attempt.
func TestDeploy(t *testing.T) {
	inBubble(t, func(w *world) {
		var attempts []int
		def := flow.New("deploy", 1, func(r *flow.Run, d time.Duration) (string, error) {
			quick := func(context.Context) error { time.Sleep(5 * time.Second); return nil }
			if err := flow.Do(r, "quick", quick); err != nil {
				return "", err
			}
			return flow.Step(r, "long", func(ctx context.Context) (string, error) {
				attempts = append(attempts, flow.Attempt(ctx))
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(d):
					return "done", nil
				}
			})
		})
		_, stop := w.run(w.process(), nil, def)
		id := w.start("deploy", time.Minute, nil)
		time.Sleep(10 * time.Second)
		began := time.Now()
		stop()
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("Run ended after %v", d)
		}
		if run := w.get(id); run.Owner != "" || run.Status != workflow.Running || run.Due.After(time.Now()) {
			t.Errorf("%+v", run)
		}
		w.run(w.process(), nil, def)
		w.completed(id, `"done"`)
		if !slices.Equal(attempts, []int{1, 1}) {
			t.Errorf("attempts %v", attempts)
		}
		if d := time.Since(began); d > 72*time.Second {
			t.Errorf("done after %v", d)
		}
	})
}

// A step that heeds no context is left behind: its outcome is late.
func TestStubbornDeploy(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("stubborn", 1, func(r *flow.Run, _ any) (any, error) {
			return nil, flow.Do(r, "long", func(context.Context) error { time.Sleep(time.Minute); return nil })
		})
		_, stop := w.run(w.process(), nil, def)
		id := w.start("stubborn", nil, nil)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("Run ended after %v", d)
		}
		w.run(w.process(), nil, def)
		w.completed(id, "null")
		time.Sleep(time.Hour)
	})
}

// An engine that is idle makes one statement in one Poll of 30 seconds, and no more while nobody owns anything. While
// others beat, it looks once a second.
func TestIdle(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("idle", 1, func(r *flow.Run, d time.Duration) (any, error) {
			return nil, flow.Do(r, "long", func(context.Context) error { time.Sleep(d); return nil })
		})
		p, other := w.process(), w.process()
		w.run(p, nil, def)
		time.Sleep(time.Minute)
		total := func() (n int) {
			for _, what := range []string{"claim", "again", "lease", "from", "write", "beat", "start"} {
				n += p.count(what)
			}
			return n
		}
		before := total()
		time.Sleep(4 * time.Hour)
		if n := total() - before; n > 4*120+48 { // and a sweep in five minutes
			t.Errorf("%d statements in four hours", n)
		}
		e, _ := w.run(other, nil, def)
		time.Sleep(time.Second)
		if _, err := workflow.NewClient(e.Front()).Start(w.Context(), "idle", time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		before = p.count("beat")
		time.Sleep(10 * time.Minute)
		if n := p.count("beat") - before; n < 590 || n > 620 {
			t.Errorf("%d looks in ten minutes beside a process that beats", n)
		}
		time.Sleep(2 * time.Hour)
		before = total()
		time.Sleep(time.Hour)
		if n := total() - before; n > 120+12 {
			t.Errorf("%d statements in an hour, after the other has stopped", n)
		}
	})
}

// Y8: 10,000 runs that wait cost no goroutine.
func TestManyWaits(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, &flow.Options{Workers: 1000}, flow.New("many", 1, func(r *flow.Run, n int) (int, error) {
			return flow.Wait[int](r, "go", flow.Timeout(48*time.Hour))
		}))
		time.Sleep(time.Second)
		goroutines := bubble.Goroutines(w.T)
		const n = 10_000
		runs, ids := make([]workflow.NewRun, n), make([]string, n)
		for i := range ids {
			ids[i] = workflow.NewID()
			runs[i] = workflow.NewRun{ID: ids[i], Workflow: "many", Version: 1}
		}
		if _, err := w.store.Start(w.Context(), runs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if more := bubble.Goroutines(w.T) - goroutines; more > 5 {
			t.Errorf("%d goroutines more", more)
		}
		ids = ids[n-100:]
		for i, id := range ids {
			if got := w.signal(id, "go", i, ""); got != workflow.Consumed {
				t.Fatal(got)
			}
		}
		for i, id := range ids {
			w.completed(id, fmt.Sprint(i))
		}
	})
}

// A process without an answer to its first claim, whose run is taken over by its lease, writes nothing. That is so also
// for an idle process, which is not told what others do.
func TestLease(t *testing.T) {
	for name, hears := range map[string]bool{"hears": true, "polls": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) { w.leaseEnds(hears) })
		})
	}
}

// A deaf process is told nothing of what others do.
type deaf struct{ *process }

func (deaf) Hears() bool { return false }

func (w *world) leaseEnds(hears bool) {
	p := w.process()
	p.before = func(what string) error {
		if what == "beat" || what == "again" {
			return errCut
		}
		return nil
	}
	var calls atomic.Int64
	def := flow.New("lease", 1, func(r *flow.Run, _ any) (any, error) {
		return nil, flow.Do(r, "work", func(ctx context.Context) error {
			if calls.Add(1) > 1 {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
	w.run(p, nil, def)
	began := time.Now()
	id := w.start("lease", nil, nil)
	time.Sleep(time.Second)
	most := time.Minute
	if other := w.process(); hears {
		w.run(other, nil, def)
		most = 3 * time.Minute // it makes one statement in 30 s, of which each third one looks for leases
	} else {
		w.run(deaf{other}, nil, def)
	}
	w.completed(id, "null")
	if d := time.Since(began); d > most {
		w.Errorf("taken over after %v", d)
	}
	synctest.Wait()
	if calls.Load() != 2 {
		w.Errorf("%d calls", calls.Load())
	}
}

// A run of n steps that is started here is a start and n writes: no claim.
func TestStartHere(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("here", 1, func(r *flow.Run, n int) (int, error) {
			for i := range n {
				if err := flow.Do(r, fmt.Sprint(i), func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		p := w.process()
		e, _ := w.run(p, nil, def)
		time.Sleep(time.Second)
		c := workflow.NewClient(e.Front())
		before := make(map[string]int)
		for _, what := range []string{"start", "claim", "write"} {
			before[what] = p.count(what)
		}
		for n := range 10 {
			h, err := def.Start(w.Context(), c, n+1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := h.Result(w.Context()); got != n+1 || err != nil {
				t.Errorf("run of %d steps: %d, %v", n+1, got, err)
			}
			synctest.Wait()
		}
		for what, want := range map[string]int{"start": 10, "claim": 0, "write": 55} {
			if got := p.count(what) - before[what]; got != want {
				t.Errorf("%d calls of %s, want %d", got, what, want)
			}
		}
	})
}

// A store whose tables are away for a while fails no run, and loses none.
func TestTablesAway(t *testing.T) {
	inBubble(t, func(w *world) {
		p := w.process()
		var until atomic.Int64
		p.before = func(string) error {
			if time.Now().UnixNano() < until.Load() {
				return workflow.ErrSchema
			}
			return nil
		}
		calls := 0
		w.run(p, nil, flow.New("tables", 1, func(r *flow.Run, _ any) (int, error) {
			for i := range 3 {
				if err := flow.Do(r, fmt.Sprint(i), func(context.Context) error {
					calls++
					until.Store(time.Now().Add(10 * time.Minute).UnixNano())
					return nil
				}); err != nil {
					return 0, err
				}
			}
			return calls, nil
		}))
		w.completed(w.start("tables", nil, nil), "3")
	})
}

// A lateQuestion is a store that loses the answer of the first claim. The first question about it arrives late.
type lateQuestion struct {
	*process

	late atomic.Pointer[workflow.ClaimRequest]
}

func (s *lateQuestion) Claim(
	ctx context.Context, r workflow.ClaimRequest,
) ([]workflow.Claimed, time.Duration, error) {
	if r.Again != "" && s.late.CompareAndSwap(nil, &r) {
		return nil, 0, errCut
	}
	return s.process.Claim(ctx, r)
}

// A question about a lost claim that arrives after a later one was answered takes no run from its stay.
func TestLateQuestion(t *testing.T) {
	inBubble(t, func(w *world) {
		var calls, lost atomic.Int64
		s := &lateQuestion{process: w.process()}
		s.after = func(what string) error {
			if what == "claim" && w.get("r").Owner != "" && lost.Add(1) == 1 {
				return errCut
			}
			return nil
		}
		run := workflow.NewRun{ID: "r", Workflow: "late", Version: 1}
		if _, err := w.store.Start(w.Context(), []workflow.NewRun{run}); err != nil {
			w.Fatal(err)
		}
		w.run(s, nil, flow.New("late", 1, func(r *flow.Run, _ any) (int64, error) {
			return flow.Step(r, "s", func(ctx context.Context) (int64, error) {
				time.Sleep(time.Minute)
				return calls.Add(1), ctx.Err()
			})
		}))
		time.Sleep(20 * time.Second)
		q := s.late.Load()
		if q == nil || w.get("r").Owner == "" {
			t.Fatalf("question %+v of %+v", q, w.get("r"))
		}
		if all, _, err := w.store.Claim(w.Context(), *q); err != nil || len(all) > 0 {
			t.Errorf("the late question gets %+v, %v", all, err)
		}
		w.completed("r", "1")
	})
}

// A cancel that comes after a claim or a start is granted, and before its answer, reaches the step at once.
func TestCancelBeforeAnswer(t *testing.T) {
	for _, what := range []string{"claim", "start"} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				p := w.process()
				p.after = func(call string) error {
					for r, err := range w.Runs(w.Context(), workflow.Query{Status: workflow.Running}) {
						if err == nil && call == what && r.Owner != "" {
							_, err = w.Cancel(w.Context(), r.ID)
						}
						if err != nil {
							return err
						}
					}
					return nil
				}
				var working atomic.Int64
				e, _ := w.run(p, nil, flow.New("stop", 1, func(r *flow.Run, _ any) (any, error) {
					return nil, flow.Do(r, "s", func(ctx context.Context) error {
						working.Add(1)
						defer working.Add(-1)
						<-ctx.Done()
						return ctx.Err()
					})
				}))
				synctest.Wait()
				c := w.Client
				if what == "start" {
					c = workflow.NewClient(e.Front())
				}
				if _, err := c.Start(w.Context(), "stop", nil, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if n := working.Load(); n != 0 {
					t.Errorf("%d steps of a cancelled run are at work", n)
				}
			})
		})
	}
}
