package snapshottest

import (
	"testing"

	"github.com/holdfast-go/holdfast/snapshot"
)

// A caller that knows that nothing was sent may begin again without a doubt.
var unreachableClause = clauseOn[snapshot.Store]{
	name: "unreachable",
	rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused; a list ends with it",
	check: func(p *probe, s snapshot.Store) {
		r := run("a", fence(1))
		_, begun := s.Begin(p.ctx, r)
		_, adopted := s.Adopt(p.ctx, r.Key, r.Fence, 0)
		saved := r
		saved.Seq++
		errs := map[string]error{
			"Begin":  begun,
			"Adopt":  adopted,
			"Save":   s.Save(p.ctx, saved),
			"Delete": s.Delete(p.ctx, r.Key, r.ID, r.Fence),
			"Runs":   nil,
		}
		for _, err := range s.Runs(p.ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: bot}}) {
			if errs["Runs"] != nil {
				fail("Runs goes on after its error")
			}
			errs["Runs"] = err
		}
		for what, err := range errs {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, snapshot.ErrRefused)
		}
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. s must be a store whose server does not run.
func RunUnreachable(t *testing.T, s snapshot.Store) {
	t.Helper()
	unreachableClause.bound().Test(t, s)
}
