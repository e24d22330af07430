package checkpointtest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// WatchingStore is a store that keeps which process is the watcher.
type WatchingStore interface {
	checkpoint.Store
	checkpoint.Watcher
}

// RunWatcher checks the clauses of [checkpoint.Watcher]. newStore must return an empty store each time it is called.
func RunWatcher(t *testing.T, newStore func(t *testing.T) WatchingStore) {
	watchContract().Run(t, newStore)
}

func watchContract() suite.Clauses[WatchingStore] {
	return suite.Of(watchClauses, clauseOn[WatchingStore].bound)
}

var watchClauses = []clauseOn[WatchingStore]{
	{
		name: "watcher",
		rule: "while one process is the watcher, others are told for how long, and it may ask again",
		check: func(p *probe, s WatchingStore) {
			wantWatcher(p, s, "a", time.Hour)
			wantOther(p, s, "b", time.Hour)
			wantWatcher(p, s, "a", 10*time.Minute)
			wantOther(p, s, "b", 10*time.Minute)
			wantOther(p, s, "c", 10*time.Minute)
			wantWatcher(p, s, "a", time.Hour)
		},
	},
	{
		name: "watcher-over",
		rule: "a process is the watcher for as long as it asked for, and then another may be",
		check: func(p *probe, s WatchingStore) {
			const d = 200 * time.Millisecond
			asked := time.Now()
			wantWatcher(p, s, "a", d)
			for other := time.Duration(1); other > 0; {
				other = watch(p, s, "b", time.Hour)
				if took := time.Since(asked); other == 0 && took < d-time.Millisecond {
					fail("who was the watcher for %v is no longer after %v", d, took)
				}
				if other > d {
					fail("who was the watcher for %v is for %v longer", d, other)
				}
			}
			wantOther(p, s, "a", time.Hour)
		},
	},
	{
		name: "watcher-leaves",
		rule: "a process that asks for no time is the watcher no longer, and makes no other stop",
		check: func(p *probe, s WatchingStore) {
			wantWatcher(p, s, "a", 0)
			wantWatcher(p, s, "b", time.Hour)
			wantOther(p, s, "a", time.Hour)
			if watch(p, s, "a", 0) == 0 {
				fail("a process is told that the watcher is gone, which is another")
			}
			wantOther(p, s, "a", time.Hour)
			wantWatcher(p, s, "b", 0)
			wantWatcher(p, s, "a", time.Hour)
		},
	},
	{
		name: "watcher-apart",
		rule: "there is a watcher for each definition of each orchestrator",
		check: func(p *probe, s WatchingStore) {
			for i, w := range [][2]string{
				{bot, "v1"}, {bot, "v2"}, {"other", "v1"}, {bot + "/v1", "v1"}, {bot, "v1/v1"},
			} {
				other, err := s.Watch(p.ctx, w[0], w[1], fmt.Sprint("process ", i), time.Hour)
				if ok(err); other > 0 {
					fail("process %d is told that another is the watcher of %q for %v", i, w, other)
				}
			}
		},
	},
	{
		name: "watcher-race",
		rule: "of processes that ask at once one is the watcher",
		check: func(p *probe, s WatchingStore) {
			for round := range 20 {
				var mu sync.Mutex
				var got []string
				var ask []func()
				for i := range 8 {
					ask = append(ask, func() {
						process := fmt.Sprint("process ", i)
						other, err := s.Watch(p.ctx, bot, fmt.Sprint("round ", round), process, time.Hour)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							got = append(got, err.Error())
						} else if other == 0 {
							got = append(got, process)
						}
					})
				}
				if together(ask...); len(got) != 1 {
					fail("the watcher is %q", got)
				}
			}
		},
	},
	{
		name: "watcher-invalid",
		rule: "what no store takes is ErrInvalid",
		check: func(p *probe, s WatchingStore) {
			for _, w := range []struct {
				names [3]string
				d     time.Duration
			}{
				{[3]string{"", "v1", "a"}, 1},
				{[3]string{bot, "", "a"}, 1},
				{[3]string{bot, "v1", ""}, 1},
				{[3]string{bot, "v1", "\xff"}, 1},
				{[3]string{bot, "v1", "a"}, -1},
			} {
				_, err := s.Watch(p.ctx, w.names[0], w.names[1], w.names[2], w.d)
				want(err, checkpoint.ErrInvalid)
			}
		},
	},
}

func watch(p *probe, s WatchingStore, process string, d time.Duration) time.Duration {
	other, err := s.Watch(p.ctx, bot, "v1", process, d)
	ok(err)
	return other
}

func wantWatcher(p *probe, s WatchingStore, process string, d time.Duration) {
	if other := watch(p, s, process, d); other != 0 {
		fail("another than %s is the watcher for %v", process, other)
	}
}

// wantOther shows that another process is the watcher, and that it asked for d within the last minutes.
func wantOther(p *probe, s WatchingStore, process string, d time.Duration) {
	if other := watch(p, s, process, d); other > d || other < d-5*time.Minute {
		fail("%s is told that another is the watcher for %v, want %v", process, other, d)
	}
}
