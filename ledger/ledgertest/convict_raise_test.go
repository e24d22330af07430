package ledgertest_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

// Each of these ledgers breaks a promise of Raise.
func TestRaiseConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(*ledger.Memory) ledgertest.RaisingLedger
	}{
		"it ends no owner":               {"raise-ends", func(m *ledger.Memory) ledgertest.RaisingLedger { return &opensOnly{Memory: m} }},
		"it ends the owners it knows":    {"raise-ends", func(m *ledger.Memory) ledgertest.RaisingLedger { return &endsKnown{Memory: m} }},
		"what is Issued stays":           {"raise-issued", func(m *ledger.Memory) ledgertest.RaisingLedger { return leavesIssued{m} }},
		"it opens no window":             {"raise-doubts", issueAs(ledger.Idempotent)},
		"what is Verifiable is issued":   {"raise-doubts", issueOf(ledger.Verifiable)},
		"doubt has no reason":            {"raise-doubts", func(m *ledger.Memory) ledgertest.RaisingLedger { return asksWhy{m} }},
		"only a Key counts":              {"raise-run", issuesChanged(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) { e.Began = time.Now().Add(time.Hour) })},
		"each run may have begun":        {"raise-run", issuesChanged(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) { e.Began = time.Time{} })},
		"what is Idempotent is in doubt": {"raise-spares", issueAs(ledger.Ask)},
		"what is known is in doubt":      {"raise-known", func(m *ledger.Memory) ledgertest.RaisingLedger { return &doubtsAll{Memory: m} }},
		"what has failed is issued": {"raise-failed", issuesChanged(func(m *ledger.Memory, e *ledger.Effect, again *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && now.State == ledger.Failed && *again {
				e.State = ledger.Failed
			}
		})},
		"what is decided is in doubt": {"raise-decided", func(m *ledger.Memory) ledgertest.RaisingLedger { return &doubtsAll{Memory: m} }},
		"a later attempt is issued": {"raise-lost-attempt", issuesChanged(func(_ *ledger.Memory, e *ledger.Effect, again *bool) {
			if *again && e.Attempts > 1 {
				e.Class = ledger.Idempotent
			}
		})},
		"the second run is issued": {"raise-two-runs", issuesChanged(func(m *ledger.Memory, e *ledger.Effect, again *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && now.RunID != e.RunID {
				e.Attempts, *again = now.Attempts, true
			}
		})},
		"the window never ends":       {"raise-window", func(m *ledger.Memory) ledgertest.RaisingLedger { return endless{m} }},
		"the last window counts":      {"raise-overlap", func(m *ledger.Memory) ledgertest.RaisingLedger { return &lastWindow{Memory: m} }},
		"it goes on when ctx is over": {"raise-cancelled", func(m *ledger.Memory) ledgertest.RaisingLedger { return raisesAnyway{m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[ledgertest.Opener]{Violations: ledgertest.RaiseViolations}.Convict(t, c.clause,
				func() ledgertest.Opener {
					m := new(ledger.Memory)
					l := c.broken(m)
					return func(doubtFor time.Duration) ledgertest.RaisingLedger {
						m.DoubtFor = doubtFor
						return l
					}
				})
		})
	}
}

// opensOnly keeps the owners and the effects of before in another ledger, which is not raised.
type opensOnly struct {
	*ledger.Memory
	before ledger.Memory
	raised bool
}

func (l *opensOnly) Raise(ctx context.Context, lost time.Time) (int, error) {
	l.raised = true
	return l.Memory.Raise(ctx, lost)
}

func (l *opensOnly) Adopt(ctx context.Context, run string, f lock.Fence) error {
	return l.before.Adopt(ctx, run, f)
}

func (l *opensOnly) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if !l.raised || e.Fence.Epoch < 1000 {
		now, issued, err := l.before.Issue(ctx, e, again)
		_, _, _ = l.Memory.Issue(ctx, e, again)
		return now, issued, err
	}
	return l.Memory.Issue(ctx, e, again)
}

// leavesIssued lists what nobody has finished as Issued.
type leavesIssued struct{ *ledger.Memory }

func (l leavesIssued) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return changed(l.Memory.Effects(ctx, q), func(e *ledger.Effect) {
		if e.State == ledger.Unknown && e.Error == "" {
			e.State = ledger.Issued
		}
	})
}

// endsKnown takes an owner whose run it does not know.
type endsKnown struct {
	*ledger.Memory
	known map[string]bool
}

func (l *endsKnown) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if l.known == nil {
		l.known = make(map[string]bool)
	}
	l.known[e.RunID] = true
	return l.Memory.Issue(ctx, e, again)
}

func (l *endsKnown) Adopt(ctx context.Context, run string, f lock.Fence) error {
	if !l.known[run] {
		return nil
	}
	return l.Memory.Adopt(ctx, run, f)
}

// issuesChanged changes what is issued.
func issuesChanged(
	change func(m *ledger.Memory, e *ledger.Effect, again *bool),
) func(*ledger.Memory) ledgertest.RaisingLedger {
	return func(m *ledger.Memory) ledgertest.RaisingLedger { return issues{m, change} }
}

// issueAs issues each effect as one of a class.
func issueAs(c ledger.Class) func(*ledger.Memory) ledgertest.RaisingLedger {
	return issuesChanged(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) { e.Class = c })
}

// issueOf issues what is of a class, whatever may have happened.
func issueOf(c ledger.Class) func(*ledger.Memory) ledgertest.RaisingLedger {
	return issuesChanged(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) {
		if e.Class == c {
			e.Class = ledger.Idempotent
		}
	})
}

type asksWhy struct{ *ledger.Memory }

func (l asksWhy) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Memory.Issue(ctx, e, again)
	now.Error = ""
	return now, issued, err
}

// doubtsAll puts each Issue after a Raise in doubt, known or not.
type doubtsAll struct {
	*ledger.Memory
	raised bool
}

func (l *doubtsAll) Raise(ctx context.Context, lost time.Time) (int, error) {
	l.raised = true
	return l.Memory.Raise(ctx, lost)
}

func (l *doubtsAll) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Memory.Issue(ctx, e, again)
	if l.raised && issued {
		now, err = l.Finish(ctx, e.ID, now.Attempts, ledger.Outcome{State: ledger.Unknown})
		return now, false, err
	}
	return now, issued, err
}

type endless struct{ *ledger.Memory }

func (l endless) Raise(ctx context.Context, lost time.Time) (int, error) {
	l.DoubtFor = time.Hour
	return l.Memory.Raise(ctx, lost)
}

// lastWindow issues what is new if the last Raise has opened no window.
type lastWindow struct {
	*ledger.Memory
	closed bool
}

func (l *lastWindow) Raise(ctx context.Context, lost time.Time) (int, error) {
	l.closed = l.DoubtFor < 0
	return l.Memory.Raise(ctx, lost)
}

func (l *lastWindow) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if l.closed {
		e.Class = ledger.Idempotent
	}
	return l.Memory.Issue(ctx, e, again)
}

type raisesAnyway struct{ *ledger.Memory }

func (l raisesAnyway) Raise(ctx context.Context, lost time.Time) (int, error) {
	n, err := l.Memory.Raise(context.WithoutCancel(ctx), lost)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
