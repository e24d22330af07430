package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// children returns the children of a run, in the order of their starts.
func (w *world) children(id string) (all []workflow.Run) {
	w.Helper()
	for r, err := range w.Runs(w.Context(), workflow.Query{Parent: id}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, r)
	}
	slices.Reverse(all)
	return all
}

// A parent starts a child once and takes its output, and is a row meanwhile. The journal answers it in later passes.
func TestChild(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		double := flow.New("double", 3, func(r *flow.Run, n int) (int, error) {
			v, err := flow.Step(r, "double", one(&calls, 2*n))
			return v, errors.Join(err, r.Sleep("long", 48*time.Hour))
		}, flow.Keep(7))
		parent := flow.New("parent", 1, func(r *flow.Run, n int) (int, error) {
			v, err := flow.Child(r, "double", double, n)
			if err != nil {
				return 0, err
			}
			return v + 1, r.Sleep("later", time.Hour)
		})
		began := time.Now()
		w.run(w.store, &flow.Options{Workers: 1}, parent)
		w.run(w.process(), nil, double) // another process has the child
		id := w.start("parent", 20, nil)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		all := w.children(id)
		if len(all) != 1 {
			t.Fatalf("children %+v", all)
		}
		c, p := all[0], w.get(id)
		if c.Workflow != "double" || c.Version != 3 || c.RetentionDays != 7 || c.Parent != id ||
			!strings.HasPrefix(c.ID, id) || string(c.Input) != "20" || c.ID <= id {
			t.Errorf("the child is %+v", c)
		}
		if p.Owner != "" || p.Event != workflow.ChildEvent || time.Until(p.Due) > time.Hour {
			t.Errorf("the parent is %+v", p)
		}
		if row := w.journal(id)["double"]; row.Kind != workflow.KindChild || row.Outcome != workflow.Open ||
			string(row.Output) != fmt.Sprintf("%q", c.ID) || row.Attempts < 20 {
			t.Errorf("the row is %+v", row)
		}
		w.completed(id, "41")
		if took := time.Since(began); calls != 1 || took < 49*time.Hour || took > 49*time.Hour+2*time.Minute {
			t.Errorf("%d calls, after %v", calls, took)
		}
		row := w.journal(id)["double"]
		if row.Outcome != workflow.Done || string(row.Output) != "40" || row.Signal == "" || len(w.journal(id)) != 2 {
			t.Errorf("the journal is %+v", w.journal(id))
		}
	})
}

// A child that fails, or is cancelled, is a RunError, which is the same in a later pass.
func TestChildEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body func(r *flow.Run, _ int) (int, error)
		act  func(w *world, child string)
		want string
	}{
		"fails": {
			body: func(*flow.Run, int) (int, error) { return 0, errors.New("no money") },
			want: "failed: no money",
		},
		"panics": {
			body: func(*flow.Run, int) (int, error) { panic("oh") },
			want: "failed: panic: oh",
		},
		"is cancelled while it waits": {
			body: func(r *flow.Run, _ int) (int, error) { return flow.Wait[int](r, "e") },
			act: func(w *world, child string) {
				if r, err := w.Cancel(w.Context(), child); err != nil || r != workflow.Applied {
					w.Error(r, err)
				}
			},
			want: "cancelled",
		},
		"is cancelled in a step, by others than a Client": {
			body: func(r *flow.Run, _ int) (int, error) {
				return 0, flow.Do(r, "s", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			},
			act: func(w *world, child string) {
				_, err := w.store.Send(w.Context(), []workflow.Message{{Run: child, Action: workflow.Cancel}})
				if err != nil {
					w.Error(err)
				}
			},
			want: "cancelled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				def := flow.New("child", 2, c.body)
				var errs []string
				parent := flow.New("parent", 1, func(r *flow.Run, _ int) (string, error) {
					_, err := flow.Child(r, "c", def, 1)
					run, is := errors.AsType[*flow.RunError](err)
					if !is || run.Run.Parent != r.ID() || run.Run.Workflow != "child" || run.Run.Version != 2 {
						return "", fmt.Errorf("not a RunError: %w", err)
					}
					errs = append(errs, err.Error())
					return err.Error(), r.Sleep("s", time.Hour)
				})
				began := time.Now()
				w.run(w.store, nil, def, parent)
				id := w.start("parent", 0, nil)
				time.Sleep(time.Second)
				synctest.Wait()
				child := w.children(id)[0].ID
				if c.act != nil {
					c.act(w, child)
				}
				r := w.await(id)
				want := fmt.Sprintf("run %s of workflow %q: %s", child, "child", c.want)
				if r.Status != workflow.Completed || len(errs) != 2 || errs[0] != errs[1] || errs[0] != want {
					t.Errorf("the errors are %q, and the run %+v", errs, r)
				}
				if took := time.Since(began); took > time.Hour+10*time.Second {
					t.Errorf("the parent knew after %v", took)
				}
			})
		})
	}
}

// A cancelled parent takes all of its descendants along, and a parent that ends otherwise takes none.
func TestChildCancelled(t *testing.T) {
	inBubble(t, func(w *world) {
		var ended atomic.Int64
		var deep *flow.Workflow[int, int]
		deep = flow.New("deep", 1, func(r *flow.Run, n int) (int, error) {
			if n > 0 {
				return flow.Child(r, "c", deep, n-1)
			}
			return 0, flow.Do(r, "s", func(ctx context.Context) error {
				<-ctx.Done()
				ended.Add(1)
				return ctx.Err()
			})
		})
		w.run(w.store, &flow.Options{Workers: 2}, deep)
		id := w.start("deep", 20, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		depth := 0
		for at := w.children(id); len(at) > 0; at = w.children(at[0].ID) {
			depth++
		}
		if _, err := w.Cancel(w.Context(), id); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		counts, err := w.store.Counts(w.Context())
		if err != nil || depth != 20 || ended.Load() != 1 || counts["deep"][workflow.Cancelled] != 21 {
			t.Errorf("depth %d, %d steps have ended, %v, %v", depth, ended.Load(), counts, err)
		}
	})
}

// silent is a store by which no run tells its parent that it is over.
type silent struct{ *workflow.Memory }

func (s silent) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	if messages[0].Event == workflow.ChildEvent {
		return nil, errCut
	}
	return s.Memory.Send(ctx, messages)
}

// A parent that is not told of the end of its child looks by itself. It also waits for a child that no process has, and
// for one that is held.
func TestChildLooks(t *testing.T) {
	inBubble(t, func(w *world) {
		child := flow.New("child", 1, func(r *flow.Run, d time.Duration) (string, error) {
			return "ok", r.Sleep("s", d)
		})
		parent := flow.New("parent", 1, func(r *flow.Run, d time.Duration) (string, error) {
			return flow.Child(r, "c", child, d)
		})
		w.run(silent{w.store}, nil, parent)
		ids := []string{w.start("parent", time.Second, nil), w.start("parent", 30*time.Hour, nil)}
		time.Sleep(30 * time.Hour) // and no process has the child
		began := time.Now()
		w.run(silent{w.store}, nil, child)
		for i, most := range []time.Duration{time.Hour + time.Second, 31*time.Hour + time.Second} {
			w.completed(ids[i], `"ok"`)
			if took := time.Since(began); took > most {
				t.Errorf("parent %d was over after %v", i, took)
			}
		}
	})
}

// A child whose row is gone counts as failed, and is not started once more.
func TestChildDeleted(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		child := flow.New("child", 1, func(r *flow.Run, _ int) (int, error) {
			return flow.Step(r, "s", one(&calls, 1))
		}, flow.Keep(1))
		parent := flow.New("parent", 1, func(r *flow.Run, _ int) (int, error) { return flow.Child(r, "c", child, 1) })
		_, stop := w.run(w.store, nil, parent)
		id := w.start("parent", 0, nil)
		time.Sleep(time.Second)
		if _, err := w.Pause(w.Context(), id); err != nil {
			t.Error(err)
		}
		w.run(w.store, nil, child)
		w.await(w.children(id)[0].ID)
		time.Sleep(25 * time.Hour)
		stop()
		if n, err := w.store.Sweep(w.Context(), 0); n > 1 || err != nil || len(w.children(id)) != 0 {
			t.Errorf("%d are swept, %v, and there are %v", n, err, w.children(id))
		}
		w.run(w.store, nil, parent)
		if _, err := w.Resume(w.Context(), id); err != nil {
			t.Error(err)
		}
		if r := w.await(id); r.Status != workflow.Failed || !strings.Contains(r.Error, "deleted") || calls != 1 {
			t.Errorf("%d calls, and the parent is %+v", calls, r)
		}
	})
}

// Children run beside each other in branches, as many at a time as Each says. The parent looks only at those that have
// told.
func TestChildrenInBranches(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 1000
		var most, now atomic.Int64
		child := flow.New("child", 1, func(r *flow.Run, i int) (int, error) {
			return i, flow.Do(r, "s", func(context.Context) error {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return nil
			})
		})
		parent := flow.New("parent", 1, func(r *flow.Run, items int) (sum int, err error) {
			all := make([]int, items)
			for i := range all {
				all[i] = i
			}
			all, err = flow.Each(r, "each", all, 0, func(r *flow.Run, i int) (int, error) {
				return flow.Child(r, "child", child, i)
			})
			for _, v := range all {
				sum += v
			}
			return sum, err
		})
		began := time.Now()
		w.run(w.store, &flow.Options{Workers: 100}, child, parent)
		id := w.start("parent", n, nil)
		w.completed(id, fmt.Sprint(n*(n-1)/2))
		if took := time.Since(began); most.Load() > 100 || took > 30*time.Second || len(w.children(id)) != n {
			t.Errorf("%d at a time, %d in all, after %v", most.Load(), len(w.children(id)), took)
		}
	})
}

// What a body may not do with children.
func TestChildRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		child := flow.New("child", 1, func(*flow.Run, any) (int, error) { return 1, nil })
		parent := flow.New("parent", 1, func(r *flow.Run, _ int) (all []string, err error) {
			for _, call := range []func() error{
				func() error { return second(flow.Child(r, "bad", child, any(make(chan int)))) },
				func() error {
					return second(flow.Child(r, "large", child, any(strings.Repeat("x", workflow.MaxValue))))
				},
				func() error { return second(flow.Child(r, "a/b", child, any(1))) },
				func() error { return second(flow.Child(r, "c", child, any(1))) },
				func() error { return second(flow.Child(r, "c", child, any(1))) },
			} {
				if err := call(); err != nil && !errors.Is(err, workflow.ErrInvalid) {
					return nil, err
				} else if err != nil {
					all = append(all, "invalid")
				}
			}
			return all, nil
		})
		w.run(w.store, nil, child, parent)
		id := w.start("parent", 0, nil)
		w.completed(id, `["invalid","invalid","invalid","invalid"]`)
		if n := len(w.children(id)); n != 1 {
			t.Errorf("%d children", n)
		}
	})
}

// A child that was renamed, or is another verb, has drifted.
func TestChildDrifts(t *testing.T) {
	for name, body := range map[string]func(r *flow.Run, child *flow.Workflow[int, int]) (int, error){
		"renamed": func(r *flow.Run, child *flow.Workflow[int, int]) (int, error) { return flow.Child(r, "d", child, 1) },
		"a wait":  func(r *flow.Run, _ *flow.Workflow[int, int]) (int, error) { return flow.Wait[int](r, "c") },
		"gone":    func(*flow.Run, *flow.Workflow[int, int]) (int, error) { return 0, nil },
		"another type": func(r *flow.Run, _ *flow.Workflow[int, int]) (int, error) {
			child := flow.New("child", 1, func(*flow.Run, int) (string, error) { return "", nil })
			_, err := flow.Child(r, "c", child, 1)
			return 0, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				child := flow.New("child", 1, func(r *flow.Run, n int) (int, error) {
					return n, r.Sleep("s", time.Hour)
				})
				parent := flow.New("parent", 1, func(r *flow.Run, _ int) (int, error) {
					return flow.Child(r, "c", child, 1)
				})
				_, stop := w.run(w.store, nil, child, parent)
				id := w.start("parent", 0, nil)
				time.Sleep(time.Minute / 2)
				stop()
				w.run(w.store, nil, child, flow.New("parent", 1, func(r *flow.Run, _ int) (int, error) {
					return body(r, child)
				}))
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if r := w.get(id); r.Hold != workflow.Drifted {
					t.Errorf("the parent is %+v", r)
				}
			})
		})
	}
}

// A parent is cut off at each call of its process. The child is started once, and its steps are not called again.
func TestChildCutOff(t *testing.T) {
	for at := 1; at <= 14; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(at, after), func(t *testing.T) {
				inBubble(t, func(w *world) {
					calls := 0
					child := flow.New("child", 1, func(r *flow.Run, n int) (int, error) {
						return flow.Step(r, "s", one(&calls, n))
					})
					parent := flow.New("parent", 1, func(r *flow.Run, n int) (int, error) {
						return flow.Child(r, "c", child, n)
					})
					p := w.process()
					var n atomic.Int64
					cut := func(string) error {
						if n.Add(1) == int64(at) {
							p.cut(true)
							return errCut
						}
						return nil
					}
					if p.before = cut; after {
						p.before, p.after = nil, cut
					}
					w.run(p, nil, parent)
					w.run(w.process(), nil, parent, child)
					id := w.start("parent", 7, nil)
					w.completed(id, "7")
					if all := w.children(id); len(all) != 1 || calls != 1 {
						t.Errorf("%d calls of the children %+v", calls, all)
					}
				})
			})
		}
	}
}
