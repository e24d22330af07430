package faulttest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Histories with effects convict a ledger that breaks its promises at once, or only if two calls meet.
func TestEffectHistoriesConvict(t *testing.T) {
	convictHistories(t, effectSpec, recordEffects, map[string]func() ledger.Ledger{
		"a lower fence issues":        func() ledger.Ledger { return issuesUnderAny{new(ledger.Memory)} },
		"adopts nothing":              func() ledger.Ledger { return adoptsNone{new(ledger.Memory)} },
		"Finish reads, then writes":   func() ledger.Ledger { return finishesLate{new(ledger.Memory)} },
		"an Issue of what has failed": func() ledger.Ledger { return issuesFailed{new(ledger.Memory)} },
	})
}

type (
	issuesUnderAny struct{ ledger.Ledger }
	adoptsNone     struct{ ledger.Ledger }
	finishesLate   struct{ ledger.Ledger }
	issuesFailed   struct{ ledger.Ledger }
)

func (l issuesUnderAny) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	e.Fence = lock.Fence{Epoch: 9, Nonce: "n9"}
	return l.Ledger.Issue(ctx, e, again)
}

func (adoptsNone) Adopt(context.Context, string, lock.Fence) error { return nil }

func (l finishesLate) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (ledger.Effect, error) {
	for e, err := range l.Effects(ctx, ledger.Query{ID: id}) {
		if err != nil {
			return e, err
		}
		return l.Ledger.Finish(ctx, id, e.Attempts, o)
	}
	return l.Ledger.Finish(ctx, id, attempt, o)
}

func (l issuesFailed) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	for known, err := range l.Effects(ctx, ledger.Query{ID: e.ID}) {
		if err == nil && known.State == ledger.Failed {
			e.Attempts, again = known.Attempts, true
		}
	}
	return l.Ledger.Issue(ctx, e, again)
}

func TestMemoryEffects(t *testing.T) {
	LedgerModel(t, func(*testing.T) ledger.Ledger { return new(ledger.Memory) })
	LedgerHistories(t, func(*testing.T) ledger.Ledger { return new(ledger.Memory) }, 10*Histories())
}
