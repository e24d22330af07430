package stores

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// How often the stores are tidied, and for how long they keep what is only for people who look.
const (
	tidyEvery = time.Minute
	tidyBatch = 1000
	keepFor   = 30 * 24 * time.Hour
)

// Tidy forgets what is old, until ctx ends: streams without readers, effects that no run can ask for, and
// the phases of old turns. Sessions are the business of Orchestrator.Sweep.
func (s *Stores) Tidy(ctx context.Context) error {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := s.tidy(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "stores not tidied; tried again in a minute", "err", err)
		}
	}
}

func (s *Stores) tidy(ctx context.Context) error {
	var errs []error
	if sweeper, ok := s.Stream.(stream.Sweeper); ok {
		_, err := sweeper.Sweep(ctx, tidyBatch)
		errs = append(errs, err)
	}
	old := time.Now().Add(-keepFor)
	_, err := s.Ledger.Prune(ctx, old)
	errs = append(errs, err)
	_, err = s.TurnLog.Prune(ctx, old)
	return errors.Join(append(errs, err)...)
}
