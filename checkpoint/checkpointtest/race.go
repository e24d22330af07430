package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// races is how often a race is run. It convicts a store that is wrong only during a tenth of a statement's time.
const races = 60

var raceClauses = []clause{
	{
		name: "one-owner",
		rule: "of any number of concurrent claims one succeeds and the others get ErrHeld",
		check: func(p *probe) {
			for i := range 5 {
				session := fmt.Sprintf("s%d", i)
				var wins atomic.Int32
				errs := make([]error, 16)
				claim := func(n int) func() {
					return func() {
						if errs[n] = p.tryClaim(session); errs[n] == nil {
							wins.Add(1)
						}
					}
				}
				var fs []func()
				for n := range errs {
					fs = append(fs, claim(n))
				}
				together(fs...)
				for _, err := range errs {
					if err != nil {
						want(err, lock.ErrHeld)
					}
				}
				if n := wins.Load(); n != 1 {
					fail("%d claims succeeded", n)
				}
			}
		},
	},
	{
		name: "one-settles",
		rule: "of any number of concurrent Appends of one turn one succeeds and the others get ErrConflict",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for n := range 5 {
				var wins atomic.Int32
				errs := make([]error, 8)
				var fs []func()
				for i := range errs {
					fs = append(fs, func() {
						if errs[i] = p.tryAppend(l, run(n, fmt.Sprintf("run-%d-%d", n, i))); errs[i] == nil {
							wins.Add(1)
						}
					})
				}
				together(fs...)
				for _, err := range errs {
					if err != nil {
						want(err, checkpoint.ErrConflict)
					}
				}
				if n := wins.Load(); n != 1 {
					fail("%d Appends succeeded", n)
				}
			}
			p.wantTurns("a", 4, 3, 2, 1, 0)
		},
	},
	{
		name: "copies",
		rule: "two copies of one Append at once both succeed and settle it once",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for n := range 10 {
				errs := make([]error, 2)
				together(func() { errs[0] = p.tryAppend(l, turn(n)) }, func() { errs[1] = p.tryAppend(l, turn(n)) })
				ok(errors.Join(errs...))
			}
			p.wantTurns("a", 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
		},
	},
	{
		name: "takeover",
		rule: "a claim returns every turn settled before it; the former owner settles no other turn later",
		check: func(p *probe) {
			c := p.claim("a")
			for n := range races {
				owner := c.Lease
				next := run(0, fmt.Sprintf("old-%d", n))
				if c.Last != nil {
					next.Turn = c.Last.Turn + 1
				}
				var settled error
				var err error
				var taken checkpoint.Claimed
				together(
					func() { settled = p.tryAppend(owner, next) },
					func() {
						taken, err = p.store.Claim(p.ctx, key("a"), from(owner.Fence))
					})
				ok(err)
				found := taken.Last != nil && taken.Last.RunID == next.RunID
				switch {
				case settled == nil && !found:
					fail("turn %d was settled, but the claim returned %s as the newest",
						next.Turn, describe(taken.Last))
				case settled != nil && found:
					fail("Append returned %v for a turn that is settled", settled)
				case settled != nil:
					want(settled, lock.ErrFenced)
				}
				c = taken
			}
		},
	},
	{
		name: "zombies",
		rule: "once another has claimed and loaded, no Append of a former owner takes effect, however late it comes",
		check: func(p *probe) {
			for range races / 4 {
				old := p.steal("a")
				first := 0
				if old.Last != nil {
					first = old.Last.Turn + 1
				}
				ctx, stop := context.WithCancel(p.ctx)
				done := make(chan int)
				go func() { done <- p.hammer(ctx, old.Lease, first) }()
				owner := p.steal("a")
				next := first
				if owner.Last != nil {
					next = owner.Last.Turn + 1
				}
				mine := fmt.Sprintf("owner-%d", next)
				err := p.tryAppend(owner.Lease, run(next, mine))
				stop()
				last := <-done
				ok(err)
				if last >= next {
					fail("a former owner settled turn %d after its successor was told that the newest is %d",
						last, next-1)
				}
				if cp := p.turns("a", next); len(cp) == 0 || cp[0].RunID != mine {
					fail("turn %d is not the owner's", next)
				}
			}
		},
	},
	{
		name: "delete-append",
		rule: "Delete leaves nothing of an Append that it races",
		check: func(p *probe) {
			for n := range races {
				l := p.claim("a").Lease
				p.append(l, run(0, fmt.Sprintf("r0-%d", n)))
				var deleted, settled error
				together(
					func() { deleted = p.store.Delete(p.ctx, l) },
					func() { settled = p.tryAppend(l, run(1, fmt.Sprintf("r1-%d", n))) })
				ok(deleted)
				if settled != nil {
					want(settled, lock.ErrFenced)
				}
				p.wantTurns("a")
				c := p.claim("a")
				if c.Last != nil {
					fail("turn %d outlived Delete", c.Last.Turn)
				}
				p.append(c.Lease, run(0, fmt.Sprintf("n0-%d", n)), run(1, fmt.Sprintf("n1-%d", n)))
				p.wantTurns("a", 1, 0)
				ok(p.store.Delete(p.ctx, c.Lease))
			}
		},
	},
	{
		name: "sessions-parallel",
		rule: "sessions do not disturb one another",
		check: func(p *probe) {
			var fs []func()
			errs := make([]error, 8)
			for i := range errs {
				fs = append(fs, func() { errs[i] = p.live(fmt.Sprintf("s%d", i), 10) })
			}
			together(fs...)
			ok(errors.Join(errs...))
			for i := range errs {
				p.wantTurns(fmt.Sprintf("s%d", i), 9, 8, 7)
			}
		},
	},
}

// hammer appends turn after turn until ctx ends or it is refused. It returns the last turn that was settled.
func (p *probe) hammer(ctx context.Context, l checkpoint.Lease, first int) int {
	for n := first; ; n++ {
		if ctx.Err() != nil || p.tryAppend(l, run(n, fmt.Sprintf("zombie-%d-%s", n, l.Fence.Nonce))) != nil {
			return n - 1
		}
	}
}

// live claims, settles and releases, turn by turn.
func (p *probe) live(session string, turns int) error {
	for n := range turns {
		c, err := p.store.Claim(p.ctx, key(session), request(time.Hour))
		if err != nil {
			return err
		}
		if n > 0 && (c.Last == nil || c.Last.Turn != n-1) {
			return fmt.Errorf("session %s: the newest is %s, want turn %d", session, describe(c.Last), n-1)
		}
		if err := p.store.Append(
			p.ctx, c.Lease, run(n, session+turn(n).RunID), checkpoint.AppendOptions{Keep: 3, Release: true},
		); err != nil {
			return err
		}
	}
	return nil
}

func describe(cp *checkpoint.Checkpoint) string {
	if cp == nil {
		return "no turn"
	}
	return fmt.Sprintf("turn %d of %s", cp.Turn, cp.RunID)
}
