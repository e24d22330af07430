package turnlogtest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A caller that knows that nothing was sent may try again without a doubt.
var unreachable = suite.Clause[turnlog.Lister]{
	Name: "unreachable",
	Rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused",
	Check: func(ctx context.Context, l turnlog.Lister) error {
		_, restored := l.Restore(ctx, "run")
		_, pruned := l.Prune(ctx, at(0))
		errs := map[string]error{
			"Record":  l.Record(ctx, entry("run", turnlog.Started, 0)),
			"Restore": restored,
			"Prune":   pruned,
			"Turns":   nil,
		}
		for _, err := range l.Turns(ctx, turnlog.Query{}) {
			errs["Turns"] = err
		}
		for what, err := range errs {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, turnlog.ErrRefused)
		}
		return nil
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. l must be a log whose server does not run.
func RunUnreachable(t *testing.T, l turnlog.Lister) {
	t.Helper()
	unreachable.Test(t, l)
}
