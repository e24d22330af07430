package checkpointtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// An earlier version may have stored larger documents than a store takes now.
var outgrownClause = clauseOn[DamagingStore]{
	name: "outgrown",
	rule: "a turn whose state no store takes now is read and claimed, the next settles, and Delete removes both",
	check: func(p *probe, s DamagingStore) {
		p.settled("a", 2)
		ok(s.DamageTurn(p.ctx, key("a"), 1))
		got, err := checkpoint.Load(p.ctx, s, key("a"), 1)
		if ok(err); len(got.State) < 1<<20 {
			fail("the state has %d bytes", len(got.State))
		}
		c := p.steal("a")
		if c.Last == nil || len(c.Last.State) < 1<<20 {
			fail("the newest is %s", describe(c.Last))
		}
		ok(p.tryAppend(c.Lease, turn(2)))
		ok(s.Delete(p.ctx, c.Lease))
		p.wantTurns("a")
	},
}

// RunOutgrown checks the clause about states that are larger than a store takes now. DamageTurn must store such a
// state: an array of 400,001 empty objects.
func RunOutgrown(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	outgrownClause.bound().Test(t, newStore(t))
}
