package workflowtest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
)

// A caller that knows that nothing was sent may try again without a doubt.
var unreachable = suite.Clause[workflow.Store]{
	Name: "unreachable",
	Rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused",
	Check: func(ctx context.Context, s workflow.Store) error {
		_, started := s.Start(ctx, []workflow.NewRun{starting("r")})
		_, sent := s.Send(ctx, []workflow.Message{signal("r", "e", `1`)})
		_, _, claimed := s.Claim(ctx, plain("a"))
		_, written := s.Write(ctx, []workflow.Entry{entry("r", owned("r").Fence, workflow.Stay)})
		_, counted := s.Counts(ctx)
		_, swept := s.Sweep(ctx, 0)
		for what, err := range map[string]error{
			"Start": started, "Send": sent, "Claim": claimed, "Write": written, "Counts": counted, "Sweep": swept,
			"Runs": listed(s.Runs(ctx, workflow.Query{})), "Steps": listed(s.Steps(ctx, "r")),
		} {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, workflow.ErrRefused)
		}
		return nil
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. s must be a store whose server does not run.
func RunUnreachable(t *testing.T, s workflow.Store) {
	t.Helper()
	unreachable.Test(t, s)
}
