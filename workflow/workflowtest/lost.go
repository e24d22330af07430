package workflowtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

var lostClauses = []clause{
	{
		name: "claim-from",
		rule: "with From a claim gets what that process owns, of these definitions, and nothing else",
		check: func(p *probe, _ workflow.Store) {
			for i, process := range []string{"a", "a", "A", "a ", "b"} {
				n := owned(fmt.Sprint("r", i))
				n.Owner = process
				p.start(n)
			}
			other := owned("other")
			other.Workflow = "other"
			p.start(other, starting("due"))
			q := from("b", "a")
			q.Limit = 1
			one, _ := p.claim(q)
			two, _ := p.claim(q)
			if len(one) != 1 || len(two) != 1 || one[0].ID == two[0].ID {
				fail("two claims of one get %q and %q", names(one), names(two))
			}
			p.wantClaimed(q)
			want(p.verdict(entry("r0", owned("r0").Fence, workflow.Stay, done("late"))), lock.ErrFenced)
			p.wantSteps("r0")
			p.wantClaimed(from("c", "b"), "r0", "r1", "r4")
			p.wantClaimed(plain("c"), "due")
		},
	},
	{
		name: "claim-again",
		rule: "with Again a claim gets what the process got with that nonce: an answer was lost",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("r"), starting("s"), starting("t"), starting("u"))
			lost := plain("a")
			lost.Limit = 2
			p.wantClaimed(lost, "r", "s")
			p.wantClaimed(plain("a"), "t")
			elsewhere := plain("b")
			elsewhere.Nonce = lost.Nonce
			p.wantClaimed(elsewhere, "u")

			p.wantNone(again("a", "unknown"), again("b", "unknown"), again("c", lost.Nonce))
			q := again("a", lost.Nonce)
			got, _ := p.claim(q)
			if len(got) != 2 {
				fail("a claim of what is owned gets %q", names(got))
			}
			p.wantNone(again("a", lost.Nonce))
			p.wantClaimed(again("b", lost.Nonce), "u")
			for _, c := range got {
				p.write(entry(c.ID, c.Fence, workflow.Stay, done("s")))
				c.Fence = lock.Fence{Epoch: c.Fence.Epoch - 1, Nonce: lost.Nonce}
				want(p.verdict(entry(c.ID, c.Fence, workflow.Stay, done("late"))), lock.ErrFenced)
			}
		},
	},
	{
		name: "claim-again-start",
		rule: "with Again a claim gets what the process has started as owner with that nonce, as of before",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.write(entry("r", f, workflow.Stay, done("s")))
			p.tell(signal("r", "e", `1`), workflow.Kept)
			known := owned("r")
			known.Fence = lock.Fence{Epoch: 1, Nonce: "second"}
			p.known(known)
			p.wantNone(again("a", "second"))
			if c := p.claimed("r", again("a", f.Nonce)); c.Mail != 1 {
				fail("a run that is got again has %d signals, want 1", c.Mail)
			}
			want(p.verdict(entry("r", f, workflow.Stay)), lock.ErrFenced)
		},
	},
	{
		name: "claim-again-left",
		rule: "with Again a claim gets nothing that the process has given back, and counts no crash",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			for range 5 {
				f = p.claimed("r", again("a", f.Nonce)).Fence
			}
			q := from("b", "a")
			q.MostCrashes = 2
			c := p.claimed("r", q)
			p.write(later("r", c.Fence, minute))
			p.wantNone(again("b", c.Fence.Nonce), again("a", f.Nonce))
		},
	},
	{
		name: "claim-lease",
		rule: "with Lease a claim gets what was claimed so long ago by an owner that has not beaten for so long",
		check: func(p *probe, _ workflow.Store) {
			n := owned("r")
			n.Owner = "silent"
			p.start(n, starting("due"))
			p.wantNone(lease("b", minute))
			p.soon("r", lease("b", time.Millisecond))
			want(p.verdict(entry("r", n.Fence, workflow.Stay)), lock.ErrFenced)
			p.wantClaimed(plain("b"), "due")
			q := lease("c", time.Millisecond)
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 2}}
			p.wantNone(lease("c", minute), q)
			p.soon("r", lease("c", time.Millisecond), "due")
		},
	},
	{
		name: "claim-lease-beats",
		rule: "with Lease a claim leaves the runs of an owner that beats, however long ago it claimed them",
		check: func(p *probe, _ workflow.Store) {
			b, is := p.store.(lock.Beater)
			if !is {
				return // then nobody is suspected, but for what was claimed long ago
			}
			// The owner beats, and then the claim comes. On a machine that stands still the beat may be too old by
			// then: once more, with more patience.
			for i, patience := range []time.Duration{20 * time.Millisecond, time.Second, 5 * time.Second} {
				n := owned(fmt.Sprint("r", i))
				p.start(n)
				old := time.Now().Add(patience + time.Millisecond)
				for {
					asked := time.Now()
					_, err := b.Beat(p.ctx, "a")
					ok(err)
					all, _ := p.claim(lease("b", patience))
					all = slices.DeleteFunc(all, func(c workflow.Claimed) bool { // b does not beat
						return c.ID != n.ID
					})
					if late := time.Since(asked) >= patience; len(all) > 0 && !late {
						fail("a claim gets %q of an owner that has beaten %v ago", names(all), time.Since(asked))
					}
					if len(all) > 0 {
						break
					}
					if asked.After(old) {
						return
					}
				}
			}
		},
	},
}

// soon claims until the claim gets a run, and what else is named, at once or one after another. A claim with a short
// lease may get the same run again.
func (p *probe) soon(id string, q workflow.ClaimRequest, more ...string) {
	missing := map[string]bool{id: true} // false: it came
	for _, id := range more {
		missing[id] = true
	}
	for deadline := time.Now().Add(minute / 10); slices.Contains(slices.Collect(maps.Values(missing)), true); {
		all, _ := p.claim(q)
		for _, c := range all {
			if _, named := missing[c.ID]; !named {
				fail("a claim %+v gets %q", q, c.ID)
			}
			missing[c.ID] = false
		}
		if time.Now().After(deadline) || p.ctx.Err() != nil {
			fail("a claim with a lease of %v does not get %v", q.Lease, missing)
		}
	}
}
