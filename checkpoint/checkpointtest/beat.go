package checkpointtest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// BeatingStore is a store in which processes show that they are alive.
type BeatingStore interface {
	checkpoint.Store
	checkpoint.Beater
}

// RunBeater checks the clauses of [checkpoint.Beater]. newStore must return an empty store each time it is called.
func RunBeater(t *testing.T, newStore func(t *testing.T) BeatingStore) {
	beatContract().Run(t, newStore)
}

func beatContract() suite.Clauses[BeatingStore] {
	return suite.Of(beatClauses, clauseOn[BeatingStore].bound)
}

var beatClauses = []clauseOn[BeatingStore]{
	{
		name: "beat",
		rule: "each beat changes the number of its process, and no other",
		check: func(p *probe, s BeatingStore) {
			first := beat(p, s, "a")
			wantBeating(first, "a")
			both := beat(p, s, "b")
			wantBeating(both, "a", "b")
			wantStill(first, both, "a")
			for range 3 {
				next := beat(p, s, "a")
				wantBeating(next, "a", "b")
				if next["a"] <= both["a"] {
					fail("process a beats, and its number goes from %d to %d", both["a"], next["a"])
				}
				wantStill(both, next, "b")
				both = next
			}
		},
	},
	{
		name: "beat-look",
		rule: "who only looks sees all beats, and does not beat",
		check: func(p *probe, s BeatingStore) {
			wantBeating(beat(p, s, ""))
			seen := beat(p, s, "a")
			for range 3 {
				looked := beat(p, s, "")
				wantBeating(looked, "a")
				wantStill(seen, looked, "a")
			}
		},
	},
	{
		name: "beat-rest",
		rule: "a process that rests is forgotten until it beats again, from another number on, and no other is",
		check: func(p *probe, s BeatingStore) {
			ok(s.Rest(p.ctx, "a"))
			first := beat(p, s, "a")
			before := beat(p, s, "b")
			ok(s.Rest(p.ctx, "a"))
			ok(s.Rest(p.ctx, "a"))
			after := beat(p, s, "")
			wantBeating(after, "b")
			wantStill(before, after, "b")
			again := beat(p, s, "a")
			wantBeating(again, "a", "b")
			if again["a"] == first["a"] {
				fail("after a rest the number of process a is %d, as before", again["a"])
			}
		},
	},
	{
		name: "beat-race",
		rule: "of processes that beat at once each is counted each time",
		check: func(p *probe, s BeatingStore) {
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
						all, err := s.Beat(p.ctx, name)
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
			together(beats...)
			ok(errors.Join(wrong...))
			wantBeating(beat(p, s, ""), names...)
		},
	},
	{
		name: "beat-names",
		rule: "names are taken as they are",
		check: func(p *probe, s BeatingStore) {
			names := []string{"a", "A", "a ", "a%", "a:b", "{a}", "é", "🚀", "a\nb", "'"}
			for _, name := range names {
				beat(p, s, name)
			}
			wantBeating(beat(p, s, ""), names...)
		},
	},
	{
		name: "beat-invalid",
		rule: "what no store takes is ErrInvalid",
		check: func(p *probe, s BeatingStore) {
			for _, name := range []string{"\xff", "a\x00"} {
				_, err := s.Beat(p.ctx, name)
				want(err, checkpoint.ErrInvalid)
				want(s.Rest(p.ctx, name), checkpoint.ErrInvalid)
			}
			want(s.Rest(p.ctx, ""), checkpoint.ErrInvalid)
		},
	},
}

func beat(p *probe, s BeatingStore, process string) map[string]int64 {
	beats, err := s.Beat(p.ctx, process)
	ok(err)
	return beats
}

// wantBeating shows that exactly these processes beat.
func wantBeating(beats map[string]int64, processes ...string) {
	for _, name := range processes {
		if _, ok := beats[name]; !ok {
			fail("process %q beats and is not among %v", name, beats)
		}
	}
	if len(beats) != len(processes) {
		fail("the processes that beat are %v, want %q", beats, processes)
	}
}

func wantStill(before, after map[string]int64, process string) {
	if before[process] != after[process] {
		fail("process %q does not beat, and its number goes from %d to %d", process, before[process], after[process])
	}
}
