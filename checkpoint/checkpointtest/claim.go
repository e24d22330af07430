package checkpointtest

import (
	"errors"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var claimClauses = []clause{
	{
		name: "claim-new",
		rule: "the first claim returns a fence with the caller's nonce, its epoch as Born, and no settled turn",
		check: func(p *probe) {
			c := p.claim("a")
			if c.Fence.Epoch <= 0 {
				fail("epoch %d", c.Fence.Epoch)
			}
			wantNew(c)
		},
	},
	{
		name: "claim-held",
		rule: "while a lease is live, a claim of another is ErrHeld at once and changes nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(l, turn(0))
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(l, turn(1))
		},
	},
	{
		name: "claim-repeated",
		rule: "a claim that finds its own nonce has already succeeded: the same fence, and what is settled by now",
		check: func(p *probe) {
			r := request(time.Hour)
			first := p.claimAs("a", r)
			p.append(first.Lease, turn(0))
			again := p.claimAs("a", r)
			if again.Lease != first.Lease || again.Born != first.Born || again.Last == nil || again.Last.Turn != 0 {
				fail("claimed %+v, then %+v", first, again)
			}
			want(p.tryClaim("a"), lock.ErrHeld)
		},
	},
	{
		name: "claim-released",
		rule: "a released session can be claimed at once; its epoch grows and Born stays",
		check: func(p *probe) {
			first := p.claim("a")
			p.release(first.Lease)
			second := p.claim("a")
			ok(p.store.Append(p.ctx, second.Lease, turn(0), checkpoint.AppendOptions{Release: true}))
			third := p.claim("a")
			if second.Fence.Epoch <= first.Fence.Epoch || third.Fence.Epoch <= second.Fence.Epoch ||
				second.Born != first.Born || third.Born != first.Born {
				fail("claimed %+v, %+v, %+v", first, second, third)
			}
		},
	},
	{
		name: "claim-expired",
		rule: "an expired lease can be taken, and is fenced from then on",
		check: func(p *probe) {
			old := p.expired("a")
			c := p.claim("a")
			if c.Fence.Epoch <= old.Fence.Epoch || c.Born != old.Fence.Epoch {
				fail("claimed %+v after %+v", c, old)
			}
			p.wantFenced(old)
			p.append(c.Lease, turn(0))
		},
	},
	{
		name: "claim-last",
		rule: "a claim returns the newest turn, as it was appended",
		check: func(p *probe) {
			l := p.claim("a").Lease
			cp := turn(0)
			cp.Route, cp.Version, cp.RequestID, cp.Payload = []string{"x", "y"}, "v", "req", []byte(`{"p":1}`)
			p.append(l, cp, turn(1))
			cp.Turn, cp.RunID = 2, "run-2"
			p.append(l, cp)
			p.release(l)
			last := p.claim("a").Last
			if last == nil {
				fail("no turn")
			}
			ok(sameCheckpoint(*last, cp))
		},
	},
	{
		name: "claim-answered",
		rule: "a claim with a request id returns the kept turn that it opened, of this session only",
		check: func(p *probe) {
			for _, session := range []string{"a", "b"} {
				l := p.claim(session).Lease
				for n := range 3 {
					cp := run(n, session+turn(n).RunID)
					cp.RequestID = "req" + string(rune('0'+n))
					ok(p.store.Append(p.ctx, l, cp, checkpoint.AppendOptions{Keep: 2}))
				}
				p.release(l)
			}
			for id, answer := range map[string]int{"": -1, "other": -1, "req0": -1, "req1": 1, "req2": 2} {
				r := request(time.Hour)
				r.RequestID = id
				c := p.claimAs("a", r)
				switch {
				case answer < 0 && c.Answered != nil:
					fail("request %q is answered by %+v", id, *c.Answered)
				case answer >= 0 && (c.Answered == nil || c.Answered.Turn != answer ||
					c.Answered.RunID != "a"+turn(answer).RunID):
					fail("request %q is answered by %+v, want turn %d", id, c.Answered, answer)
				case c.Last == nil || c.Last.Turn != 2:
					fail("the newest turn is %+v, want 2", c.Last)
				}
				p.release(c.Lease)
			}
		},
	},
	{
		name: "claim-separate",
		rule: "one session name under two orchestrators, and names that join to one text, are different sessions",
		check: func(p *probe) {
			for i, k := range []checkpoint.Key{
				{Orchestrator: "o", Session: "s"},
				{Orchestrator: "os", Session: "s"},
				{Orchestrator: "o", Session: "ss"},
				{Orchestrator: "o/s", Session: "s"},
				{Orchestrator: "o", Session: "s/s"},
				{Orchestrator: "O", Session: "s"},
			} {
				c, err := p.store.Claim(p.ctx, k, request(time.Hour))
				ok(err)
				if c.Last != nil {
					fail("%q has a turn of another", k)
				}
				p.append(c.Lease, run(0, string(rune('a'+i))))
			}
		},
	},
}

var leaseClauses = []clause{
	{
		name: "fence-nonce",
		rule: "the nonce decides, not the epoch alone",
		check: func(p *probe) {
			l := p.claim("a").Lease
			forged := l
			forged.Fence.Nonce += "x"
			p.wantFenced(forged)
			p.append(l, turn(0))
		},
	},
	{
		name: "fence-epoch",
		rule: "the epoch is compared by equality: neither a lower nor a higher one is let in",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for _, d := range []int64{-1, 1} {
				forged := l
				forged.Fence.Epoch += d
				p.wantFenced(forged)
			}
			p.append(l, turn(0))
		},
	},
	{
		name: "fence-unknown",
		rule: "a lease on a session that does not exist is fenced and renews nothing",
		check: func(p *probe) {
			p.wantFenced(checkpoint.Lease{Key: key("nobody"), Fence: lock.Fence{Epoch: 1, Nonce: "n"}})
			p.wantSessions(checkpoint.SessionQuery{})
		},
	},
	{
		name: "expired-untaken",
		rule: "an expired lease that no claim has taken still appends, marks and renews",
		check: func(p *probe) {
			l := p.expired("a")
			p.append(l, turn(0))
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Summarized: 1}))
			lost, err := p.store.Renew(p.ctx, time.Hour, []checkpoint.Lease{l})
			ok(err)
			if len(lost) > 0 {
				fail("lost %+v", lost)
			}
			want(p.tryClaim("a"), lock.ErrHeld)
		},
	},
	{
		name: "released",
		rule: "a released lease appends and renews nothing, even before the next claim",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			p.release(l)
			want(p.tryAppend(l, turn(1)), lock.ErrFenced)
			p.wantLost(l)
			c := p.claim("a")
			if c.Last == nil || c.Last.Turn != 0 {
				fail("claimed %+v", c)
			}
			p.wantFenced(l)
		},
	},
	{
		name: "released-taken",
		rule: "a lease that was released and taken by another appends nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			ok(p.store.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Release: true}))
			c := p.claim("a")
			p.wantFenced(l)
			p.append(c.Lease, turn(1))
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "release-lost",
		rule: "a lost lease may be released, without an error and without effect",
		check: func(p *probe) {
			old := p.claim("a").Lease
			l := p.steal("a").Lease
			p.release(old)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(l, turn(0))
			p.release(l)
			p.release(l)
			p.release(checkpoint.Lease{Key: key("nobody"), Fence: l.Fence})
			ok(p.tryClaim("a"))
		},
	},
	{
		name: "renew",
		rule: "Renew extends what is still the latest and returns exactly the others",
		check: func(p *probe) {
			live := p.claimAs("live", request(time.Millisecond)).Lease
			stolen := p.claim("stolen").Lease
			p.steal("stolen")
			deleted := p.claim("deleted").Lease
			ok(p.store.Delete(p.ctx, deleted))
			unknown := checkpoint.Lease{Key: key("unknown"), Fence: live.Fence}
			lost, err := p.store.Renew(p.ctx, time.Hour, []checkpoint.Lease{stolen, live, unknown, deleted})
			ok(err)
			got := make(map[checkpoint.Lease]int)
			for _, l := range lost {
				got[l]++
			}
			if len(lost) != 3 || got[stolen] != 1 || got[deleted] != 1 || got[unknown] != 1 {
				fail("lost %+v", lost)
			}
			want(p.tryClaim("live"), lock.ErrHeld)
			lost, err = p.store.Renew(p.ctx, time.Hour, nil)
			if ok(err); len(lost) > 0 {
				fail("lost %+v of none", lost)
			}
		},
	},
	{
		name: "held",
		rule: "Held returns exactly the sessions that a live lease owns, also before their first turn, " +
			"and their owners",
		check: func(p *probe) {
			p.claim("a live")
			p.claim("not asked")
			p.settled("released", 1)
			ok(p.store.Delete(p.ctx, p.claim("deleted").Lease))
			l := p.claim("settled").Lease
			p.append(l, turn(0))
			other := key("other")
			other.Orchestrator = "another bot"
			_, err := p.store.Claim(p.ctx, other, request(time.Hour))
			ok(err)
			p.expired("expired")
			p.settled("next", 1)
			r := request(time.Hour)
			r.Owner = "next"
			_, err = p.store.Claim(p.ctx, key("next"), r)
			ok(err)
			asked := []string{"settled", "expired", "released", "deleted", "unknown", "other", "a live", "next"}
			held, err := p.store.Held(p.ctx, key("").Orchestrator, asked)
			ok(err)
			owner := request(0).Owner
			if !maps.Equal(held, map[string]string{"a live": owner, "settled": owner, "next": "next"}) {
				fail("held are %q", held)
			}
			held, err = p.store.Held(p.ctx, key("").Orchestrator, nil)
			if ok(err); len(held) > 0 {
				fail("held are %q of none", held)
			}
			_, err = p.store.Held(p.ctx, key("").Orchestrator, []string{""})
			want(err, checkpoint.ErrInvalid)
		},
	},
}

// wantFenced shows that l can do nothing. The turn it tries to settle is one that no clause settles.
func (p *probe) wantFenced(l checkpoint.Lease) {
	for n := range 3 {
		if err := p.tryAppend(l, run(n, "zombie")); !errors.Is(err, lock.ErrFenced) {
			fail("Append of turn %d by a lease that is not the latest returns %v, want %v", n, err, lock.ErrFenced)
		}
	}
	if err := p.store.Mark(p.ctx, l, checkpoint.Marks{Summarized: 1}); !errors.Is(err, lock.ErrFenced) {
		fail("Mark by a lease that is not the latest returns %v, want %v", err, lock.ErrFenced)
	}
	p.wantLost(l)
}

func (p *probe) wantLost(l checkpoint.Lease) {
	lost, err := p.store.Renew(p.ctx, time.Hour, []checkpoint.Lease{l})
	ok(err)
	if len(lost) != 1 || lost[0] != l {
		fail("Renew of a lease that is not the latest lost %+v, want %+v", lost, l)
	}
}
