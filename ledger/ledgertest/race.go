package ledgertest

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var raceClauses = []clause{
	{
		name: "issue-race",
		rule: "of several runs that issue one Key at once, one may act",
		check: func(p *probe) {
			for range races {
				id := fence(1).Nonce
				var issued [4]bool
				var errs [4]error
				var all []func()
				for i := range issued {
					e := keyed(id+" of "+string(rune('a'+i)), id, fence(10))
					all = append(all, func() { _, issued[i], errs[i] = p.ledger.Issue(p.ctx, e, i%2 == 0) })
				}
				suite.Together(all...)
				ok(errors.Join(errs[:]...))
				acts := 0
				for i, yes := range issued {
					if yes {
						acts++
						if e := p.kept(id); e.RunID != id+" of "+string(rune('a'+i)) {
							fail("run %d may act, and the effect belongs to %s", i, e.RunID)
						}
					}
				}
				if acts != 1 {
					fail("%d of 4 runs may act", acts)
				}
			}
		},
	},
	{
		name: "record-race",
		rule: "of several Records of one effect at once the first stays, and all are told of it",
		check: func(p *probe) {
			for range races {
				id := fence(1).Nonce
				var told [3]ledger.Effect
				var errs [3]error
				var all []func()
				for i := range told {
					e := pure("run of "+id, id, `"`+string(rune('a'+i))+`"`)
					all = append(all, func() { told[i], errs[i] = p.ledger.Record(p.ctx, e) })
				}
				suite.Together(all...)
				ok(errors.Join(errs[:]...))
				kept := string(compact(p.kept(id).Result))
				for _, e := range told {
					if string(compact(e.Result)) != kept {
						fail("told %s, and %s is kept", e.Result, kept)
					}
				}
			}
		},
	},
	{
		name: "adopt-issue-race",
		rule: "an Issue beside the Adopt of a higher fence is refused, or what it has issued is Unknown",
		check: func(p *probe) {
			for range races {
				run := fence(1).Nonce
				low, high := fence(10), fence(11)
				p.adopt(run, low)
				var issued bool
				var issue, adopt error
				suite.Together(
					func() { _, issued, issue = p.ledger.Issue(p.ctx, effect(run, run, low), false) },
					func() { adopt = p.ledger.Adopt(p.ctx, run, high) },
				)
				ok(adopt)
				switch {
				case issued:
					p.wantState(run, ledger.Unknown, 1)
				case !errors.Is(issue, lock.ErrFenced):
					fail("the Issue returns %v", issue)
				}
			}
		},
	},
	{
		name: "adopt-adopt-race",
		rule: "of two Adopts at once the higher fence stays",
		check: func(p *probe) {
			for range races {
				run := fence(1).Nonce
				low, high := fence(10), fence(11)
				var errs [2]error
				suite.Together(
					func() { errs[0] = p.ledger.Adopt(p.ctx, run, low) },
					func() { errs[1] = p.ledger.Adopt(p.ctx, run, high) },
				)
				ok(errs[1])
				if errs[0] != nil {
					want(errs[0], lock.ErrFenced)
				}
				want(p.ledger.Adopt(p.ctx, run, low), lock.ErrFenced)
			}
		},
	},
	{
		name: "finish-race",
		rule: "of several results at once the first stays, and all are told of it",
		check: func(p *probe) {
			for range races {
				id := fence(1).Nonce
				e := p.issue(effect("run of "+id, id, fence(10)))
				var told [3]ledger.Effect
				var errs [3]error
				var all []func()
				for i := range told {
					o := ledger.Outcome{State: ledger.Completed, Result: []byte(`"` + string(rune('a'+i)) + `"`)}
					all = append(all, func() { told[i], errs[i] = p.ledger.Finish(p.ctx, id, e.Attempts, o) })
				}
				suite.Together(all...)
				ok(errors.Join(errs[:]...))
				kept := string(compact(p.kept(id).Result))
				for _, e := range told {
					if string(compact(e.Result)) != kept {
						fail("told %s, and %s is kept", e.Result, kept)
					}
				}
			}
		},
	},
}
