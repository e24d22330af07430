package locktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// RunWatcher checks the clauses of [lock.Watcher]. newWatcher must return one that is empty each time it is called.
func RunWatcher(t *testing.T, newWatcher func(t *testing.T) lock.Watcher) {
	watchClauses.Run(t, newWatcher)
}

const bot = "bot"

var watchClauses = suite.Clauses[lock.Watcher]{
	{
		Name: "watcher",
		Rule: "while one process is the watcher, others are told for how long, and it may ask again",
		Check: func(ctx context.Context, w lock.Watcher) error {
			wantWatcher(ctx, w, "a", time.Hour)
			wantOther(ctx, w, "b", time.Hour)
			wantWatcher(ctx, w, "a", 10*time.Minute)
			wantOther(ctx, w, "b", 10*time.Minute)
			wantOther(ctx, w, "c", 10*time.Minute)
			wantWatcher(ctx, w, "a", time.Hour)
			return nil
		},
	},
	{
		Name: "watcher-over",
		Rule: "a process is the watcher for as long as it asked for, and then another may be",
		Check: func(ctx context.Context, w lock.Watcher) error {
			const d = 200 * time.Millisecond
			asked := time.Now()
			wantWatcher(ctx, w, "a", d)
			for other := time.Duration(1); other > 0; {
				other = watch(ctx, w, "b", time.Hour)
				if took := time.Since(asked); other == 0 && took < d-time.Millisecond {
					suite.Fail("who was the watcher for %v is no longer after %v", d, took)
				}
				if other > d {
					suite.Fail("who was the watcher for %v is for %v longer", d, other)
				}
			}
			wantOther(ctx, w, "a", time.Hour)
			return nil
		},
	},
	{
		Name: "watcher-leaves",
		Rule: "a process that asks for no time is the watcher no longer, and makes no other stop",
		Check: func(ctx context.Context, w lock.Watcher) error {
			wantWatcher(ctx, w, "a", 0)
			wantWatcher(ctx, w, "b", time.Hour)
			wantOther(ctx, w, "a", time.Hour)
			if watch(ctx, w, "a", 0) == 0 {
				suite.Fail("a process is told that the watcher is gone, which is another")
			}
			wantOther(ctx, w, "a", time.Hour)
			wantWatcher(ctx, w, "b", 0)
			wantWatcher(ctx, w, "a", time.Hour)
			return nil
		},
	},
	{
		Name: "watcher-apart",
		Rule: "there is a watcher for each definition of each orchestrator",
		Check: func(ctx context.Context, w lock.Watcher) error {
			for i, of := range [][2]string{
				{bot, "v1"}, {bot, "v2"}, {"other", "v1"}, {bot + "/v1", "v1"}, {bot, "v1/v1"},
			} {
				other, err := w.Watch(ctx, of[0], of[1], fmt.Sprint("process ", i), time.Hour)
				if suite.OK(err); other > 0 {
					suite.Fail("process %d is told that another is the watcher of %q for %v", i, of, other)
				}
			}
			return nil
		},
	},
	{
		Name: "watcher-race",
		Rule: "of processes that ask at once one is the watcher",
		Check: func(ctx context.Context, w lock.Watcher) error {
			for round := range 20 {
				var mu sync.Mutex
				var got []string
				var ask []func()
				for i := range 8 {
					ask = append(ask, func() {
						process := fmt.Sprint("process ", i)
						other, err := w.Watch(ctx, bot, fmt.Sprint("round ", round), process, time.Hour)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							got = append(got, err.Error())
						} else if other == 0 {
							got = append(got, process)
						}
					})
				}
				if suite.Together(ask...); len(got) != 1 {
					suite.Fail("the watcher is %q", got)
				}
			}
			return nil
		},
	},
	{
		Name: "watcher-invalid",
		Rule: "what no store takes is ErrInvalid",
		Check: func(ctx context.Context, w lock.Watcher) error {
			for _, wrong := range []struct {
				names [3]string
				d     time.Duration
			}{
				{[3]string{"", "v1", "a"}, 1},
				{[3]string{bot, "", "a"}, 1},
				{[3]string{bot, "v1", ""}, 1},
				{[3]string{bot, "v1", "\xff"}, 1},
				{[3]string{bot, "v1", "a"}, -1},
			} {
				_, err := w.Watch(ctx, wrong.names[0], wrong.names[1], wrong.names[2], wrong.d)
				suite.Want(err, store.ErrInvalid)
			}
			return nil
		},
	},
}

func watch(ctx context.Context, w lock.Watcher, process string, d time.Duration) time.Duration {
	other, err := w.Watch(ctx, bot, "v1", process, d)
	suite.OK(err)
	return other
}

func wantWatcher(ctx context.Context, w lock.Watcher, process string, d time.Duration) {
	if other := watch(ctx, w, process, d); other != 0 {
		suite.Fail("another than %s is the watcher for %v", process, other)
	}
}

// wantOther shows that another process is the watcher, and that it asked for d within the last minutes.
func wantOther(ctx context.Context, w lock.Watcher, process string, d time.Duration) {
	if other := watch(ctx, w, process, d); other > d || other < d-5*time.Minute {
		suite.Fail("%s is told that another is the watcher for %v, want %v", process, other, d)
	}
}
