package flow_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A gauge says how many bodies run at once, in all and of each group, and when they began.
type gauge struct {
	mu      sync.Mutex // protects following fields
	now     map[string]int
	most    map[string]int
	began   []time.Time
	entered map[string]bool
}

func newGauge() *gauge {
	return &gauge{now: make(map[string]int), most: make(map[string]int), entered: make(map[string]bool)}
}

// enter counts a body of a run of a group until leave.
func (g *gauge) enter(run, group string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range []string{"", group} {
		g.now[name]++
		g.most[name] = max(g.most[name], g.now[name])
	}
	if !g.entered[run] {
		g.entered[run] = true
		g.began = append(g.began, time.Now())
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now[""]--
		g.now[group]--
	}
}

// takes is a workflow whose input is its group, and whose step takes a second. Then it sleeps for a second, and its
// last step takes another one.
func (g *gauge) takes(limit flow.Limit, sleeps bool) *flow.Workflow[string, string] {
	return flow.New("limited", 1, func(r *flow.Run, group string) (string, error) {
		defer g.enter(r.ID(), group)()
		work := func(name string) error {
			return flow.Do(r, name, func(context.Context) error { time.Sleep(time.Second); return nil })
		}
		if err := work("first"); err != nil || !sleeps {
			return group, err
		}
		if err := r.Sleep("nap", time.Second); err != nil {
			return "", err
		}
		return group, work("second")
	}, limit)
}

// wantOwners checks until stop that no more runs have an owner than most.
func (w *world) wantOwners(most int) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			owned := 0
			for r, err := range w.store.Runs(w.Context(), workflow.Query{Status: workflow.Running}) {
				if err != nil {
					w.Error(err)
				}
				if r.Owner != "" {
					owned++
				}
			}
			if owned > most {
				w.Errorf("%d runs have an owner, and %d may", owned, most)
			}
			time.Sleep(7 * time.Millisecond)
		}
	})
	return func() { cancel(); done.Wait() }
}

// Y99: a limit of 10 over five processes is never passed, and keeps its places full.
func TestLimitRuns(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGauge()
		def := g.takes(flow.Limit{Runs: 10}, false)
		var ids []string
		for i := range 100 {
			ids = append(ids, w.start("limited", fmt.Sprint("g", i), nil))
		}
		stop := w.wantOwners(10)
		for range 5 {
			w.run(w.process(), &flow.Options{Workers: 4}, def)
		}
		for i, id := range ids {
			w.completed(id, fmt.Sprintf("%q", fmt.Sprint("g", i)))
		}
		stop()
		if d := time.Since(g.began[0]); g.most[""] != 10 || d > 11*time.Second {
			t.Errorf("%d at once, and 100 took %v", g.most[""], d)
		}
	})
}

// A run that sleeps leaves its place to others, and gets one again. A group has its own limit. A run that is started by
// the Front of an engine waits for its place too.
func TestLimitGroups(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGauge()
		def := g.takes(flow.Limit{Runs: 5, EachGroup: 2}, true)
		e, _ := w.run(w.process(), nil, def)
		w.run(w.process(), nil, def)
		time.Sleep(time.Second)
		c := workflow.NewClient(e.Front())
		stop := w.wantOwners(5)
		began := time.Now()
		var all []flow.Handle[string]
		for i := range 40 {
			group := fmt.Sprint("g", i/10)
			h, err := def.Start(w.Context(), c, group, &workflow.StartOptions{Group: group})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h)
		}
		for _, h := range all {
			if _, err := h.Result(w.Context()); err != nil {
				t.Error(err)
			}
		}
		stop()
		for name, most := range g.most {
			if want := map[bool]int{true: 5, false: 2}[name == ""]; most != want {
				t.Errorf("%d runs of the group %q at once, want %d", most, name, want)
			}
		}
		if d := time.Since(began); d > 22*time.Second { // 80 steps of a second, four or five at a time
			t.Errorf("it took %v", d)
		}
	})
}

// Runs of a workflow begin at a rate, over all processes.
func TestLimitPerSecond(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGauge()
		def := g.takes(flow.Limit{PerSecond: 5}, true)
		for range 3 {
			w.run(w.process(), nil, def)
		}
		var ids []string
		for i := range 60 {
			ids = append(ids, w.start("limited", fmt.Sprint(i), nil))
		}
		for i, id := range ids {
			w.completed(id, fmt.Sprintf("%q", fmt.Sprint(i)))
		}
		for i := range g.began[6:] {
			if d := g.began[i+6].Sub(g.began[i]); d < time.Second-time.Millisecond {
				t.Errorf("7 runs begin within %v", d)
			}
		}
		if d := g.began[59].Sub(g.began[0]); len(g.began) != 60 || d > 13*time.Second {
			t.Errorf("60 runs begin within %v", d)
		}
	})
}

// If a process dies, its runs are taken over within the limit, and their places are filled again. If one shuts down,
// the others take its places at once.
func TestLimitTakeover(t *testing.T) {
	inBubble(t, func(w *world) {
		g := newGauge()
		def := g.takes(flow.Limit{Runs: 4}, false)
		first, second := w.process(), w.process()
		w.run(first, nil, def)
		time.Sleep(time.Second)
		var ids []string
		for i := range 40 {
			ids = append(ids, w.start("limited", fmt.Sprint(i), nil))
		}
		time.Sleep(500 * time.Millisecond) // the first has all places
		_, end := w.run(second, nil, def)
		w.run(w.process(), nil, def)
		stop := w.wantOwners(4)
		time.Sleep(2 * time.Second)
		first.cut(true)
		time.Sleep(8 * time.Second) // four for the takeover
		end()
		began := time.Now()
		for i, id := range ids {
			w.completed(id, fmt.Sprintf("%q", fmt.Sprint(i)))
		}
		stop()
		if d := time.Since(began); d > 8*time.Second {
			t.Errorf("the rest took %v", d)
		}
	})
}

// What cannot be meant panics, and names the workflow.
func TestLimitInvalid(t *testing.T) {
	body := func(*flow.Run, any) (any, error) { return nil, nil }
	for text, f := range map[string]func(){
		"a limit of -1 runs": func() { flow.New("bad", 1, body, flow.Limit{Runs: -1}) },
		`workflow "two" has versions with different limits`: func() {
			one, two := flow.New("two", 1, body), flow.New("two", 2, body, flow.Limit{Runs: 1})
			flow.NewEngine(new(workflow.Memory), nil, one, two)
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, text) {
					t.Errorf("it panics with %q, want %q", got, text)
				}
			}()
			f()
		}()
	}
}
