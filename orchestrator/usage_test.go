package orchestrator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A value that comes again in another attempt has cost once. One that was made anew has cost again.
func TestOnceUsage(t *testing.T) {
	type state struct{ N int }
	cost := func(int) orchestrator.Usage { return orchestrator.Usage{Input: 1} }
	for keep, want := range map[bool]int{true: 1, false: 2} {
		run := func(ctx context.Context, t *orchestrator.Turn[state]) error {
			_, err := orchestrator.Once(ctx, t, "model", func(context.Context, string) (int, error) { return 7, nil },
				&orchestrator.OnceOptions[int]{Class: ledger.Pure, KeepOnRetry: keep, Usage: cost})
			if err == nil && t.Attempt == 1 {
				err = errors.New("once more")
			}
			return err
		}
		bot, err := orchestrator.New(orchestrator.Definition[state]{
			Name: "bot", Intents: orchestrator.Intents[state]{"ask": {Run: run, Retry: retry.Fixed(2, 0)}},
		}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Ledger: new(ledger.Memory)})
		if err != nil {
			t.Fatal(err)
		}
		res, err := bot.Execute(t.Context(), "s", orchestrator.Input{}, nil)
		if err != nil || res.Usage.Input != want {
			t.Errorf("keep %t: %+v, %v, want %d", keep, res, err, want)
		}
		turn := new(orchestrator.Turn[state]) // made by hand
		if err := run(t.Context(), turn); err != nil || turn.Usage().Input != 1 {
			t.Errorf("%+v, %v", turn.Usage(), err)
		}
	}
}
