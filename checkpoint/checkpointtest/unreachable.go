package checkpointtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A caller that knows that nothing was sent may begin again without a doubt.
var unreachableClause = clauseOn[checkpoint.Store]{
	name: "unreachable",
	rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused; a list ends with it",
	check: func(p *probe, s checkpoint.Store) {
		l := checkpoint.Lease{Key: key("a"), Fence: lock.Fence{Epoch: 1, Nonce: nonce()}}
		_, claimed := s.Claim(p.ctx, l.Key, request(time.Hour))
		_, renewed := s.Renew(p.ctx, time.Hour, []checkpoint.Lease{l})
		_, held := s.Held(p.ctx, bot, []string{"a"})
		errs := map[string]error{
			"Claim":    claimed,
			"Append":   p.tryAppend(l, turn(0)),
			"Mark":     s.Mark(p.ctx, l, checkpoint.Marks{Release: true}),
			"Delete":   s.Delete(p.ctx, l),
			"Turns":    nil,
			"Sessions": nil,
		}
		for _, err := range s.Turns(p.ctx, l.Key, checkpoint.Newest) {
			if errs["Turns"] != nil {
				fail("Turns goes on after its error")
			}
			errs["Turns"] = err
		}
		for _, err := range s.Sessions(p.ctx, checkpoint.SessionQuery{Orchestrator: bot}) {
			if errs["Sessions"] != nil {
				fail("Sessions goes on after its error")
			}
			errs["Sessions"] = err
		}
		if i, is := s.(checkpoint.Inspector); is {
			_, errs["Head"] = i.Head(p.ctx, l.Key)
		}
		for what, err := range errs {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, checkpoint.ErrRefused)
		}
		// These may be repeated, so they need not say that nothing was sent.
		if renewed == nil || held == nil {
			fail("Renew returns %v, and Held %v", renewed, held)
		}
		if b, is := s.(lock.Beater); is {
			_, beaten := b.Beat(p.ctx, "process")
			if rested := b.Rest(p.ctx, "process"); beaten == nil || rested == nil {
				fail("Beat returns %v, and Rest %v", beaten, rested)
			}
		}
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. s must be a store whose server does not run.
func RunUnreachable(t *testing.T, s checkpoint.Store) {
	t.Helper()
	unreachableClause.bound().Test(t, s)
}
