package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The allocations of the engine itself: a turn with a state of one integer, on a store in memory.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector sync.Pool drops at random what encoding/json would use again")
	}
	const most = 40 // see decision 35
	bot, err := orchestrator.New(orchestrator.Definition[int]{
		Name: "counting",
		Intents: orchestrator.Intents[int]{"increment": {Run: func(_ context.Context, t *orchestrator.Turn[int]) error {
			t.State++
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		t.Fatal(err)
	}
	play := func() {
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "next"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	// From then on, each turn that settles prunes another one.
	for range 2 * checkpoint.DefaultKeep {
		play()
	}
	got := testing.AllocsPerRun(1000, play)
	t.Logf("%.0f allocations a turn", got)
	if got > most {
		t.Errorf("%.0f allocations a turn, want at most %d", got, most)
	}
}
