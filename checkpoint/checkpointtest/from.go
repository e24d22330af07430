package checkpointtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var fromClauses = []clause{
	{
		name: "claim-steal",
		rule: "a claim From the owner's fence takes a live lease, and the former owner is fenced",
		check: func(p *probe) {
			old := p.claim("a").Lease
			p.append(old, turn(0))
			c := p.claimAs("a", from(old.Fence))
			if c.Fence.Epoch <= old.Fence.Epoch || c.Born != old.Fence.Epoch ||
				c.Last == nil || c.Last.RunID != "run-0" {
				fail("took %+v from %+v", c, old)
			}
			p.wantFenced(old)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(c.Lease, turn(1))
		},
	},
	{
		name: "steal-expired",
		rule: "a claim From the fence of an expired lease without a new owner is granted; the former owner is fenced",
		check: func(p *probe) {
			old := p.expired("a")
			c := p.claimAs("a", from(old.Fence))
			if c.Fence.Epoch <= old.Fence.Epoch || c.Born != old.Fence.Epoch {
				fail("took %+v from %+v", c, old)
			}
			p.wantFenced(old)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(c.Lease, turn(0))
		},
	},
	{
		name: "steal-other",
		rule: "a claim From a fence that is not the owner's is ErrHeld, names the owner, and changes nothing",
		check: func(p *probe) {
			old := p.claim("a").Lease
			l := p.steal("a").Lease
			for n, fence := range append(strangers(l.Fence), old.Fence) {
				p.wantHeld("a", from(fence), owner(l))
				p.append(l, turn(n))
			}
			p.wantHeld("a", request(time.Hour), owner(l))
			p.wantTurns("a", 4, 3, 2, 1, 0)
		},
	},
	{
		name: "steal-free",
		rule: "a claim From a fence of a session that is free or unknown is ErrHeld, names no owner, " +
			"and creates nothing",
		check: func(p *probe) {
			l := p.claim("released").Lease
			p.append(l, turn(0))
			p.release(l)
			deleted := p.claim("deleted").Lease
			ok(p.store.Delete(p.ctx, deleted))
			p.wantHeld("released", from(l.Fence), unowned)
			p.wantHeld("deleted", from(deleted.Fence), unowned)
			p.wantHeld("unknown", from(l.Fence), unowned)
			p.wantSessions(checkpoint.SessionQuery{}, "released")
			p.append(p.claim("released").Lease, turn(1))
			for _, session := range []string{"deleted", "unknown"} {
				if c := p.claim(session); c.Born != c.Fence.Epoch {
					fail("session %q was born at %d, before its first claim at %d", session, c.Born, c.Fence.Epoch)
				}
			}
		},
	},
	{
		name: "steal-late",
		rule: "a copy of a claim From that comes after its owner released changes nothing, even without a new owner",
		check: func(p *probe) {
			old := p.claim("a").Lease
			r := from(old.Fence)
			c := p.claimAs("a", r)
			if again := p.claimAs("a", r); again.Lease != c.Lease {
				fail("a repeat is granted %v after %v", again.Fence, c.Fence)
			}
			ok(p.store.Append(p.ctx, c.Lease, turn(0), checkpoint.AppendOptions{Release: true}))
			p.wantHeld("a", r, unowned)
			next := p.claim("a").Lease
			p.wantHeld("a", r, owner(next))
			p.append(next, turn(1))
			ok(p.store.Delete(p.ctx, next))
			p.wantHeld("a", r, unowned)
		},
	},
	{
		name: "steal-invalid",
		rule: "a fence that no store issues is ErrInvalid in From",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for _, nonce := range refusedIDs {
				_, err := p.store.Claim(p.ctx, key("a"), from(lock.Fence{Epoch: l.Fence.Epoch, Nonce: nonce}))
				want(err, checkpoint.ErrInvalid)
			}
			p.append(l, turn(0))
		},
	},
	{
		name: "claim-born",
		rule: "a claim From with Born sets an earlier Born, of an unsettled session only; a copy of it changes nothing",
		check: func(p *probe) {
			first := p.claim("a")
			ok(p.store.Delete(p.ctx, first.Lease))
			next := p.claim("a")
			r := from(next.Fence)
			r.Born = first.Born
			for range 2 {
				c := p.claimAs("a", r)
				if c.Born != first.Born || c.Fence.Epoch <= next.Fence.Epoch {
					fail("claimed %+v with Born %d after %+v", c, first.Born, next)
				}
				p.wantFenced(next.Lease)
				next = c
				p.wantBorn("a", &next, first.Born)
				r = from(next.Fence)
				r.Born = first.Born
			}
			p.append(next.Lease, turn(0))
			r = from(next.Fence)
			r.Born = first.Born - 1
			if c := p.claimAs("a", r); c.Born != first.Born {
				fail("a session with a settled turn was born at %d, and then at %d", first.Born, c.Born)
			}
		},
	},
	{
		name: "claim-born-late",
		rule: "if From is not the latest fence, a copy of a claim with Born changes nothing and creates nothing",
		check: func(p *probe) {
			old := p.claim("a")
			r := from(old.Fence)
			r.Born = old.Born - 1
			l := p.claimAs("a", from(old.Fence))
			p.wantHeld("a", r, owner(l.Lease))
			ok(p.store.Delete(p.ctx, l.Lease))
			p.wantHeld("a", r, unowned)
			wantNew(p.claim("a"))
		},
	},
	{
		name: "claim-born-invalid",
		rule: "a Born without From, or one that is not less than the epoch of From, is ErrInvalid",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for _, r := range []checkpoint.ClaimRequest{request(time.Hour), from(l.Fence), from(l.Fence)} {
				for _, born := range []int64{-1, l.Fence.Epoch, l.Fence.Epoch + 1} {
					r.Born = born
					_, err := p.store.Claim(p.ctx, key("a"), r)
					want(err, checkpoint.ErrInvalid)
				}
			}
			r := request(time.Hour)
			r.Born = 1
			_, err := p.store.Claim(p.ctx, key("b"), r)
			want(err, checkpoint.ErrInvalid)
			p.append(l, turn(0))
		},
	},
	{
		name: "held-names",
		rule: "a refused claim names the owner and its fence, as of its last claim, " +
			"and no owner once the lease is over",
		check: func(p *probe) {
			r := request(time.Hour)
			r.Owner = "first"
			first := p.claimAs("a", r)
			p.wantHeld("a", request(time.Hour), checkpoint.HeldError{Owner: "first", Fence: first.Fence})
			r = from(first.Fence)
			r.Owner = "second"
			second := p.claimAs("a", r)
			p.append(second.Lease, turn(0))
			p.wantHeld("a", request(time.Hour), checkpoint.HeldError{Owner: "second", Fence: second.Fence})
			r = from(second.Fence)
			r.Owner = ""
			third := p.claimAs("a", r)
			p.wantHeld("a", request(time.Hour), checkpoint.HeldError{Fence: third.Fence})
			p.wantHeld("a", from(first.Fence), checkpoint.HeldError{Fence: third.Fence})
			p.expired("b")
			p.wantHeld("b", from(first.Fence), unowned)
		},
	},
	{
		name: "steal-race",
		rule: "of concurrent claims From one fence one is granted, and the others are told its fence",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for n := range races / 3 {
				granted, errs := make([]checkpoint.Claimed, 8), make([]error, 8)
				var fs []func()
				for i := range errs {
					fs = append(fs, func() { granted[i], errs[i] = p.store.Claim(p.ctx, key("a"), from(l.Fence)) })
				}
				together(fs...)
				winner := slices.Index(errs, nil)
				if winner < 0 {
					fail("no claim is granted: %w", errs[0])
				}
				won := granted[winner].Lease
				for i, err := range errs {
					held, is := errors.AsType[*checkpoint.HeldError](err)
					if i != winner && (!is || *held != owner(won)) {
						fail("claims From %v are granted %v, and return %v with %+v", l.Fence, won.Fence, err, held)
					}
				}
				p.wantFenced(l)
				p.append(won, turn(n))
				l = won
			}
		},
	},
	{
		name: "steal-release-race",
		rule: "of an Append that releases and a claim From its fence one succeeds",
		check: func(p *probe) {
			for n := range races {
				l := p.claim("a").Lease
				var settled, claimed error
				var c checkpoint.Claimed
				together(
					func() {
						cp := run(n, fmt.Sprintf("released-%d", n))
						settled = p.store.Append(p.ctx, l, cp, checkpoint.AppendOptions{Release: true})
					},
					func() { c, claimed = p.store.Claim(p.ctx, key("a"), from(l.Fence)) })
				if settled == nil {
					want(claimed, lock.ErrHeld)
					continue
				}
				want(settled, lock.ErrFenced)
				ok(claimed)
				p.append(c.Lease, turn(n))
				p.release(c.Lease)
			}
		},
	},
	{
		name: "steal-granted",
		rule: "a claim that was granted is told so, even if another takes the session from it meanwhile",
		check: func(p *probe) {
			var granted, named sync.Map // of fences
			granted.Store(p.claim("a").Fence, true)
			var errs [3]error
			thief := func(i int) func() {
				return func() { errs[i] = p.chase("a", &granted, &named) }
			}
			for range races {
				together(thief(0), thief(1), thief(2))
				ok(errors.Join(errs[:]...))
			}
			for f := range named.Range {
				if _, told := granted.Load(f); !told {
					fail("the owner's fence is %v, and its claim was refused", f)
				}
			}
		},
	},
}

// chase claims a session a few times, From the owner that the last refusal named. It notes which owners were named, and
// the fence that it got.
func (p *probe) chase(session string, granted, named *sync.Map) error {
	r := request(time.Hour)
	for range 4 {
		c, err := p.store.Claim(p.ctx, key(session), r)
		if err == nil {
			granted.Store(c.Fence, true)
			return nil
		}
		held, is := errors.AsType[*checkpoint.HeldError](err)
		if !is {
			return err
		}
		r.From = held.Fence
		named.Store(held.Fence, true)
	}
	return nil
}

// strangers returns fences that differ from f in one part.
func strangers(f lock.Fence) []lock.Fence {
	return []lock.Fence{
		{Epoch: f.Epoch - 1, Nonce: f.Nonce},
		{Epoch: f.Epoch + 1, Nonce: f.Nonce},
		{Epoch: f.Epoch, Nonce: f.Nonce + "x"},
		{Epoch: f.Epoch, Nonce: nonce()},
	}
}
