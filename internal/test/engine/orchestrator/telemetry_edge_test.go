package orchestrator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Each call of the ledger and of the turn log is a span, and ends.
func TestLedgerSpans(t *testing.T) {
	spans := traced(t)
	s := newShop()
	d := single(func(ctx context.Context, t *Turn) error {
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		if err != nil {
			return err
		}
		_, err = orchestrator.Once(ctx, t, "price", func(context.Context, string) (int, error) { return 7, nil },
			&orchestrator.OnceOptions[int]{Class: ledger.Pure})
		return err
	})
	execute(t, s.Start(t, d, Options{TurnLog: new(turnlog.Memory)}), Input{Text: "a"})
	in := Input{Text: "b", RequestID: "r"}
	s.Crash(t, func(die func()) Def {
		return single(func(context.Context, *Turn) error { die(); return errors.New("died") })
	}, in)
	fails := single(func(context.Context, *Turn) error { return errors.New("no") })
	_, err := s.Start(t, fails, Options{}).Execute(t.Context(), "s", in, nil)
	wantOp(t, err, "intent")

	ended := make(map[string]bool)
	for _, span := range spans.Ended() {
		ended[span.Name()] = true
	}
	for _, name := range []string{
		"ledger.Adopt", "ledger.Issue", "ledger.Finish", "ledger.Record", "ledger.Effects", "turnlog.Record",
	} {
		if !ended[name] {
			t.Errorf("no span %s has ended", name)
		}
	}
}
