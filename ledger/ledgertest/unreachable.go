package ledgertest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
)

// A caller that knows that nothing was sent may try again without a doubt.
var unreachable = suite.Clause[ledger.Ledger]{
	Name: "unreachable",
	Rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused",
	Check: func(ctx context.Context, l ledger.Ledger) error {
		f := fence(10)
		_, _, issued := l.Issue(ctx, effect("run", "a", f), false)
		_, finished := l.Finish(ctx, "a", 1, paid)
		_, recorded := l.Record(ctx, pure("run", "b", `1`))
		_, pruned := l.Prune(ctx, later())
		errs := map[string]error{
			"Issue": issued, "Finish": finished, "Record": recorded, "Prune": pruned,
			"Adopt": l.Adopt(ctx, "run", f), "Effects": nil,
		}
		for _, err := range l.Effects(ctx, ledger.Query{}) {
			errs["Effects"] = err
		}
		for what, err := range errs {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, ledger.ErrRefused)
		}
		return nil
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. l must be a ledger whose server does not run.
func RunUnreachable(t *testing.T, l ledger.Ledger) {
	t.Helper()
	unreachable.Test(t, l)
}
