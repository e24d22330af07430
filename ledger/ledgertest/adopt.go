package ledgertest

import (
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var adoptClauses = []clause{
	{
		name: "adopt-unknown",
		rule: "what a lower fence has left Issued is Unknown after Adopt, and what has another state stays as it is",
		check: func(p *probe) {
			f := fence(10)
			p.issue(effect("run", "open", f))
			done := p.finish(p.issue(effect("run", "done", f)), paid)
			p.finish(p.issue(effect("run", "failed", f)), failed)
			other := p.issue(effect("other", "other", f))
			p.adopt("run", fence(11))
			if e := p.wantState("open", ledger.Unknown, 1); e.FinishedAt.IsZero() || e.Fence != f {
				fail("adopted: %+v", e)
			}
			p.wantSame(done)
			p.wantState("failed", ledger.Failed, 1)
			p.wantSame(other)
		},
	},
	{
		name: "adopt-again",
		rule: "the fence of the run may adopt again, and changes nothing",
		check: func(p *probe) {
			f := fence(10)
			p.adopt("run", f)
			e := p.issue(effect("run", "a", f))
			p.adopt("run", f)
			p.wantSame(e)
		},
	},
	{
		name: "adopt-fenced",
		rule: "a lower fence, and an equal epoch with another nonce, is ErrFenced and changes nothing",
		check: func(p *probe) {
			f := fence(10)
			p.adopt("run", f)
			e := p.issue(effect("run", "a", f))
			for _, low := range []lock.Fence{fence(9), fence(10)} {
				want(p.ledger.Adopt(p.ctx, "run", low), lock.ErrFenced)
			}
			p.wantSame(e)
			p.issue(effect("run", "b", f))
		},
	},
	{
		name: "adopt-first",
		rule: "Adopt keeps the fence of a run that has no effect yet",
		check: func(p *probe) {
			p.adopt("run", fence(10))
			_, _, err := p.ledger.Issue(p.ctx, effect("run", "a", fence(9)), false)
			want(err, lock.ErrFenced)
			if all := p.effects(ledger.Query{}); len(all) > 0 {
				fail("a refused Issue leaves %+v", all)
			}
		},
	},
}
