package j

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

func parked[S any](ctx context.Context, bot *orchestrator.Orchestrator[S]) error {
	for run, err := range bot.Runs(ctx) {
		if err != nil {
			return err
		}
		if run.Status != snapshot.Parked {
			continue
		}
		fmt.Println(run.Session, run.Turn, run.Attempt, run.Error)
		if run.Attempt > 20 {
			if err := bot.Abandon(ctx, run.Session); err != nil {
				return err
			}
			continue
		}
		if _, err := bot.Resume(ctx, run.Session, &orchestrator.CallOptions{Force: true}); err != nil {
			return err
		}
	}
	return nil
}

var _ = parked[int]
