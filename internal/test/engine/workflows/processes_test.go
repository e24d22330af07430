package workflows_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// Three processes on one database run chains, and are killed and stopped again and again. All runs complete, and their
// outputs are what their journals say.
func TestKillAgainAndAgain(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.Takes, s.Workers = 100*time.Millisecond, 5
			w := s.here(t)
			j := job{Site: s, Versions: []int{1}}
			children := []*child{j.start(t), j.start(t), j.start(t)}
			ids := w.start(t, 60)
			const strikes = 18
			for i := range strikes {
				<-time.After(time.Duration(200+rand.IntN(200)) * time.Millisecond)
				victim := &children[rand.IntN(len(children))]
				if i%3 < 2 {
					(*victim).kill()
					*victim = j.start(t)
				} else {
					p := *victim
					p.stop()
					time.AfterFunc(time.Second, p.resume)
				}
				counts, err := w.store.Counts(t.Context())
				if err != nil && s.Kind != "sqlite" { // whose writer may stand still
					t.Fatal(err)
				}
				if err == nil && counts["chain"][workflow.Running] == 0 {
					ids = append(ids, w.start(t, 20)...)
				}
			}
			extra := w.judgeChains(t, ids)
			t.Logf("%d strikes: %d calls too many of %d", strikes, extra, links*len(ids))
		})
	}
}

// Three processes are replaced one after the other by some that have a second version, while runs go on, and then by
// some that have only the second. Each run keeps its version, no step is called twice, and a run whose version no
// process has waits unharmed until one has it.
func TestRollingRestart(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.DeadAfter, s.Lease = time.Minute, time.Minute // nobody is slow enough
			s.Takes, s.Workers = 50*time.Millisecond, 5
			roll(t, s, s.here(t))
		})
	}
}

func roll(t *testing.T, s site, w *world) {
	children := make([]*child, 3)
	for i := range children {
		children[i] = job{Site: s, Versions: []int{1}}.start(t)
	}
	ids := w.start(t, 20)
	once := func() {
		t.Helper()
		if extra := w.judgeChains(t, ids); extra != 0 {
			t.Errorf("%d calls too many", extra)
		}
	}
	replace := func(versions ...int) {
		for i := range children {
			next := job{Site: s, Versions: versions}.start(t)
			children[i].end()
			children[i] = next
			ids = append(ids, w.start(t, 10)...)
		}
	}
	replace(1, 2)
	c := workflow.NewClient(w.store)
	for newest := 0; newest != 2; { // a process begins late on a slow machine
		s, err := c.Start(t.Context(), "chain", 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids, newest = append(ids, s.ID), s.Version
		<-time.After(nap)
	}
	once()
	replace(2)
	once()
	old, err := c.Start(t.Context(), "chain", 0, &workflow.StartOptions{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * time.Second) // time enough to do it harm
	if r, err := c.Get(t.Context(), old.ID); err != nil || r.Status != workflow.Running || r.Hold != "" {
		t.Errorf("%+v: %v", r, err)
	}
	ids, children = append(ids, old.ID), append(children, job{Site: s, Versions: []int{1, 2}}.start(t))
	once()
	versions := make(map[int]int)
	for r, err := range c.Runs(t.Context(), workflow.Query{Workflow: "chain"}) {
		if err != nil {
			t.Fatal(err)
		}
		versions[r.Version]++
	}
	if versions[1] < 21 || versions[2] < 30 {
		t.Errorf("runs by version: %v", versions)
	}
	for _, c := range children {
		c.end()
	}
}
