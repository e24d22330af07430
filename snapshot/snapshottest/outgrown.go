package snapshottest

import (
	"testing"

	"github.com/holdfast-go/holdfast/snapshot"
)

// An earlier version may have stored larger documents than a store takes now.
var outgrownClause = clauseOn[DamagingStore]{
	name: "outgrown",
	rule: "a run whose payload no store takes now is listed, found, adopted, put off, ended and deleted",
	check: func(p *probe, s DamagingStore) {
		r := p.begun("a")
		ok(s.Damage(p.ctx, r.Key))
		for _, err := range s.Runs(p.ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: bot}}) {
			ok(err)
		}
		found, err := s.Begin(p.ctx, run("a", fence(20)))
		if ok(err); found == nil || len(found.Payload) < 1<<20 {
			fail("Begin finds %v", found)
		}
		got := p.adopt(r, fence(30), 3)
		if len(got.Payload) < 1<<20 {
			fail("the payload has %d bytes", len(got.Payload))
		}
		save := got
		save.Payload = nil
		for _, s := range []snapshot.Status{snapshot.Waiting, snapshot.Ended} {
			save.Seq++
			save.Status = s
			p.save(save)
		}
		ok(s.Delete(p.ctx, r.Key, r.ID, save.Fence))
		p.wantNone("a")
	},
}

// RunOutgrown checks the clause about payloads that are larger than a store takes now. Damage must store such a
// payload: an array of 400,001 empty objects.
func RunOutgrown(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	outgrownClause.bound().Test(t, newStore(t))
}
