package locktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// RunBeater checks the clauses of [lock.Beater]. newBeater must return one that is empty each time it is called.
func RunBeater(t *testing.T, newBeater func(t *testing.T) lock.Beater) { beatClauses.Run(t, newBeater) }

var beatClauses = suite.Clauses[lock.Beater]{
	{
		Name: "beat",
		Rule: "each beat changes the number of its process, and no other",
		Check: func(ctx context.Context, b lock.Beater) error {
			first := beat(ctx, b, "a")
			wantBeating(first, "a")
			both := beat(ctx, b, "b")
			wantBeating(both, "a", "b")
			wantStill(first, both, "a")
			for range 3 {
				next := beat(ctx, b, "a")
				wantBeating(next, "a", "b")
				if next["a"] <= both["a"] {
					suite.Fail("process a beats, and its number goes from %d to %d", both["a"], next["a"])
				}
				wantStill(both, next, "b")
				both = next
			}
			return nil
		},
	},
	{
		Name: "beat-look",
		Rule: "who only looks sees all beats, and does not beat",
		Check: func(ctx context.Context, b lock.Beater) error {
			wantBeating(beat(ctx, b, ""))
			seen := beat(ctx, b, "a")
			for range 3 {
				looked := beat(ctx, b, "")
				wantBeating(looked, "a")
				wantStill(seen, looked, "a")
			}
			return nil
		},
	},
	{
		Name: "beat-rest",
		Rule: "a process that rests is forgotten until it beats again, from another number on, and no other is",
		Check: func(ctx context.Context, b lock.Beater) error {
			suite.OK(b.Rest(ctx, "a"))
			first := beat(ctx, b, "a")
			before := beat(ctx, b, "b")
			suite.OK(b.Rest(ctx, "a"))
			suite.OK(b.Rest(ctx, "a"))
			after := beat(ctx, b, "")
			wantBeating(after, "b")
			wantStill(before, after, "b")
			again := beat(ctx, b, "a")
			wantBeating(again, "a", "b")
			if again["a"] == first["a"] {
				suite.Fail("after a rest the number of process a is %d, as before", again["a"])
			}
			return nil
		},
	},
	{
		Name: "beat-race",
		Rule: "of processes that beat at once each is counted each time",
		Check: func(ctx context.Context, b lock.Beater) error {
			var names []string
			var beats []func()
			var mu sync.Mutex
			var wrong []error
			note := func(err error) {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, err)
			}
			for i := range 8 {
				name := fmt.Sprint("process ", i)
				names = append(names, name)
				beats = append(beats, func() {
					last := int64(math.MinInt64)
					for range 5 {
						all, err := b.Beat(ctx, name)
						if err == nil && all[name] <= last {
							err = fmt.Errorf("%s beats, and its number goes from %d to %d", name, last, all[name])
						}
						if last = all[name]; err != nil {
							note(err)
							return
						}
					}
				})
			}
			suite.Together(beats...)
			suite.OK(errors.Join(wrong...))
			wantBeating(beat(ctx, b, ""), names...)
			return nil
		},
	},
	{
		Name: "beat-names",
		Rule: "names are taken as they are",
		Check: func(ctx context.Context, b lock.Beater) error {
			names := []string{"a", "A", "a ", "a%", "a:b", "{a}", "é", "🚀", "a\nb", "'"}
			for _, name := range names {
				beat(ctx, b, name)
			}
			wantBeating(beat(ctx, b, ""), names...)
			return nil
		},
	},
	{
		Name: "beat-invalid",
		Rule: "what no store takes is ErrInvalid",
		Check: func(ctx context.Context, b lock.Beater) error {
			for _, name := range []string{"\xff", "a\x00"} {
				_, err := b.Beat(ctx, name)
				suite.Want(err, store.ErrInvalid)
				suite.Want(b.Rest(ctx, name), store.ErrInvalid)
			}
			suite.Want(b.Rest(ctx, ""), store.ErrInvalid)
			return nil
		},
	},
}

func beat(ctx context.Context, b lock.Beater, process string) map[string]int64 {
	beats, err := b.Beat(ctx, process)
	suite.OK(err)
	return beats
}

// wantBeating shows that exactly these processes beat.
func wantBeating(beats map[string]int64, processes ...string) {
	for _, name := range processes {
		if _, ok := beats[name]; !ok {
			suite.Fail("process %q beats and is not among %v", name, beats)
		}
	}
	if len(beats) != len(processes) {
		suite.Fail("the processes that beat are %v, want %q", beats, processes)
	}
}

func wantStill(before, after map[string]int64, process string) {
	if before[process] != after[process] {
		suite.Fail("process %q does not beat, and goes from %d to %d", process, before[process], after[process])
	}
}
