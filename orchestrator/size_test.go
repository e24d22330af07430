package orchestrator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A turn of many iterations saves its state each time. For each earlier iteration it saves no more than one compact
// step. The bytes of a Save follow the state, not the history.
func TestSize(t *testing.T) {
	const (
		iterations = 40
		compact    = 40 // bytes of a step
	)
	turns := 1000
	if raceDetector { // 30 times slower, and there is no other goroutine to race with
		turns = 50
	}
	w := newWorld()
	scale := &scale{Store: w.Snapshots}
	w.Snapshots = scale
	d := Def{
		Name: "long", Iterate: true,
		Begin: func(_ context.Context, t *Turn) error { t.State.A = strings.Repeat("x", 4<<10); return nil },
		Intents: Intents{"work": {Run: func(_ context.Context, t *Turn) error {
			t.State.A = t.State.A[1:] + string(rune('a'+t.Iteration%26))
			return nil
		}}},
		Evaluate: func(_ context.Context, t *Turn) (Next, error) {
			if t.Iteration+1 == iterations {
				return orchestrator.End, nil
			}
			return orchestrator.To("work"), nil
		},
	}
	bot := w.Start(t, d, Options{Limits: orchestrator.Limits{Iterations: iterations}})
	first, last := 0, 0
	for range turns {
		scale.saves = nil
		res := execute(t, bot, Input{Text: "go"})
		if len(res.Steps) != iterations || len(scale.saves) != iterations-1 {
			t.Fatalf("%d iterations, %d saves", len(res.Steps), len(scale.saves))
		}
		first, last = max(first, scale.saves[0]), max(last, scale.saves[iterations-2])
	}
	growth := float64(last-first) / (iterations - 2)
	t.Logf("a Save of a state of 4 KiB has %d bytes after iteration 1, %d after iteration %d: %.1f an iteration", first,
		last, iterations-1, growth)
	if growth > compact {
		t.Errorf("a Save grows by %.1f bytes with each iteration, want at most %d", growth, compact)
	}
	if first > 5<<10 {
		t.Errorf("the first has %d bytes", first)
	}
}

// The state that a turn starts from is stored in the session. A Begin does not write it again, except for the changes
// of the bot's Begin.
func TestStateIsNotBegunWith(t *testing.T) {
	const size = 64 << 10
	for _, hook := range []bool{false, true} {
		w := newWorld()
		scale := &scale{Store: w.Snapshots}
		w.Snapshots = scale
		d := Def{Name: "plain", Intents: Intents{"work": {Run: func(_ context.Context, t *Turn) error {
			t.State.A = strings.Repeat("x", size)
			return nil
		}}}}
		if hook {
			d.Begin = func(_ context.Context, t *Turn) error { t.State.B += "b"; return nil }
		}
		bot := w.Start(t, d, Options{})
		execute(t, bot, Input{Text: "one"})
		execute(t, bot, Input{Text: "two"})
		if got := scale.begun; hook != (got > size) || !hook && got > 512 {
			t.Errorf("Begin hook %t: a run begins with %d bytes", hook, got)
		}
	}
}

// A scale measures the saves.
type scale struct {
	snapshot.Store
	begun int
	saves []int
}

func (s *scale) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	s.begun = len(r.Payload)
	return s.Store.Begin(ctx, r)
}

func (s *scale) Save(ctx context.Context, r snapshot.Run) error {
	s.saves = append(s.saves, len(r.Payload))
	return s.Store.Save(ctx, r)
}
