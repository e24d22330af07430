package ledgertest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var issueClauses = []clause{
	{
		name: "issue-new",
		rule: "a new effect is issued as its first attempt, and kept as it was asked for",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			asked.Class, asked.Key = ledger.Verifiable, "order 7"
			e := p.issue(asked)
			if e.State != ledger.Issued || e.Attempts != 1 || e.IssuedAt.IsZero() || !e.FinishedAt.IsZero() {
				fail("issued: %+v", e)
			}
			asked.State, asked.Attempts, asked.IssuedAt = e.State, e.Attempts, e.IssuedAt
			p.wantSame(asked)
			p.wantSame(e)
		},
	},
	{
		name: "issue-reads",
		rule: "of an effect Issue reads what identifies it, the class, the fence and the arguments, " +
			"and without again nothing else",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			asked.State, asked.Attempts, asked.Error = ledger.Completed, 7, "error"
			asked.Result, asked.AnsweredBy, asked.FinishedAt = json.RawMessage(`1`), "Ann", later()
			asked.IssuedAt, asked.AnsweredAt, asked.Unsure, asked.Age = later(), later(), true, time.Hour
			e := p.issue(asked)
			if e.State != ledger.Issued || e.Attempts != 1 || e.Error != "" || e.Result != nil || e.AnsweredBy != "" ||
				!e.FinishedAt.IsZero() || !e.AnsweredAt.IsZero() || e.IssuedAt.Equal(asked.IssuedAt) ||
				e.Unsure || e.Age >= asked.Age {
				fail("issued: %+v", e)
			}
			p.wantSame(e)
		},
	},
	{
		name: "issue-repeat",
		rule: "the fence that has issued an effect gets the same attempt once more, " +
			"because the answer may have been lost",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			e := p.issue(asked)
			if again := p.issue(asked); again.Attempts != 1 {
				fail("the repeat is attempt %d", again.Attempts)
			}
			p.wantSame(e)
		},
	},
	{
		name: "issue-again",
		rule: "with again, what is Issued to the run or Unknown is issued anew, " +
			"with the arguments and the class of now",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			p.issue(asked)
			if e := p.issueAgain(asked); e.Attempts != 2 || e.State != ledger.Issued {
				fail("issued anew: %+v", e)
			}
			next := fence(11)
			p.adopt("run", next)
			asked.Fence, asked.Class, asked.Iteration, asked.Args = next, ledger.Idempotent, 5, json.RawMessage(`{"cents":1e2}`)
			p.issueAgain(asked)
			if e := p.wantState("a", ledger.Issued, 3); e.Fence != next || e.Class != ledger.Idempotent ||
				e.Iteration != 5 || !e.FinishedAt.IsZero() {
				fail("issued anew: %+v", e)
			}
		},
	},
	{
		name: "issue-unknown",
		rule: "without again, what is Unknown stays so, and is returned",
		check: func(p *probe) {
			e, next := p.doubtful("run", "a")
			if now := p.meet(effect("run", "a", next), false); now.State != ledger.Unknown {
				fail("met: %+v", now)
			}
			p.wantSame(e)
		},
	},
	{
		name: "issue-failed",
		rule: "what has Failed is issued anew with again",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			p.finish(p.issue(asked), failed)
			if e := p.issueAgain(asked); e.Attempts != 2 || e.State != ledger.Issued || e.Error != "" {
				fail("issued anew: %+v", e)
			}
		},
	},
	{
		name: "issue-repeat-again",
		rule: "a call with again that is repeated gets the same attempt",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			p.finish(p.issue(asked), failed)
			asked.Attempts = 1
			for range 2 {
				if e := p.issueAs(asked, true, true); e.Attempts != 2 {
					fail("issued as attempt %d", e.Attempts)
				}
			}
		},
	},
	{
		name: "issue-late-copy",
		rule: "a copy of an Issue that arrives late, after the attempt has ended, issues nothing",
		check: func(p *probe) {
			first := effect("run", "a", fence(10))
			p.finish(p.issue(first), failed)
			p.issueAs(first, false, false)
			second := first
			second.Attempts = 1
			e := p.finish(p.issueAs(second, true, true), unknown)
			p.issueAs(first, false, false)
			p.issueAs(second, true, false)
			p.wantSame(e)
			third := first
			third.Attempts = 2
			e = p.issueAs(third, true, true)
			p.issueAs(first, false, false)
			p.issueAs(second, true, false)
			p.wantSame(e)
		},
	},
	{
		name: "issue-final",
		rule: "what is Completed or Skipped is never issued again",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"paid": paid, "skipped": skipped} {
				asked := effect("run", id, fence(10))
				asked.RunID += id
				e := p.finish(p.issue(asked), o)
				for _, again := range []bool{false, true} {
					if now := p.meet(asked, again); now.State != o.State {
						fail("met: %+v", now)
					}
				}
				p.wantSame(e)
			}
		},
	},
	{
		name: "issue-changed",
		rule: "other arguments than before are ErrChanged, with the effect, and change nothing",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			e := p.issue(asked)
			asked.ArgsSum, asked.Attempts = "k:2", e.Attempts
			for _, again := range []bool{false, true} {
				now, issued, err := p.ledger.Issue(p.ctx, asked, again)
				want(err, ledger.ErrChanged)
				if issued || now.ID != "a" || now.State != ledger.Issued {
					fail("issued is %t, and the effect %+v", issued, now)
				}
			}
			p.wantSame(e)
			asked.ArgsSum = "l:2" // of another key: nobody can tell
			p.issue(asked)
		},
	},
	{
		name: "issue-changed-final",
		rule: "other arguments are ErrChanged whatever the state of the effect",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"a": paid, "b": failed, "c": unknown, "d": skipped} {
				asked := effect("run of "+id, id, fence(10))
				e := p.finish(p.issue(asked), o)
				asked.ArgsSum = "k:2"
				now, issued, err := p.ledger.Issue(p.ctx, asked, true)
				if want(err, ledger.ErrChanged); issued || now.State != o.State {
					fail("issued is %t, and the effect %+v", issued, now)
				}
				p.wantSame(e)
			}
		},
	},
	{
		name: "issue-pure-changes",
		rule: "an effect that is Pure may have other arguments",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			asked.Class = ledger.Pure
			p.finish(p.issue(asked), failed)
			asked.ArgsSum = "k:2"
			if e := p.issueAgain(asked); e.ArgsSum != "k:2" {
				fail("issued anew: %+v", e)
			}
		},
	},
	{
		name: "issue-fenced",
		rule: "a lower fence, and an equal epoch with another nonce, is ErrFenced and changes nothing",
		check: func(p *probe) {
			e := p.issue(effect("run", "a", fence(10)))
			for _, low := range []lock.Fence{fence(9), fence(10)} {
				for _, id := range []string{"a", "b"} {
					_, issued, err := p.ledger.Issue(p.ctx, effect("run", id, low), true)
					if want(err, lock.ErrFenced); issued {
						fail("issued under a lower fence")
					}
				}
			}
			p.wantSame(e)
			if all := p.effects(ledger.Query{}); len(all) != 1 {
				fail("%d effects", len(all))
			}
		},
	},
	{
		name: "issue-adopts",
		rule: "an Issue under a higher fence adopts the run",
		check: func(p *probe) {
			low := fence(10)
			p.issue(effect("run", "a", low))
			p.issue(effect("run", "b", low))
			p.issue(effect("run", "c", fence(11)))
			p.wantState("a", ledger.Unknown, 1)
			p.wantState("b", ledger.Unknown, 1)
			want(p.ledger.Adopt(p.ctx, "run", low), lock.ErrFenced)
		},
	},
	{
		name: "issue-known-adopts",
		rule: "an Issue or a Record under a higher fence adopts the run, also if the effect is Completed",
		check: func(p *probe) {
			for run, ask := range map[string]func(ledger.Effect) ledger.Effect{
				"issued":   func(e ledger.Effect) ledger.Effect { return p.meet(e, false) },
				"recorded": p.record,
			} {
				low, high := fence(10), fence(11)
				asked := pure(run, run, `"answer"`)
				asked.Fence = low
				p.record(asked)
				p.issue(effect(run, run+" open", low))
				asked.Fence = high
				if e := ask(asked); e.State != ledger.Completed {
					fail("met: %+v", e)
				}
				p.wantState(run+" open", ledger.Unknown, 1)
				want(p.ledger.Adopt(p.ctx, run, low), lock.ErrFenced)
			}
		},
	},
	{
		name: "issue-adopts-itself",
		rule: "an Issue under a higher fence of what a lower one has left Issued finds it Unknown",
		check: func(p *probe) {
			p.issue(effect("run", "a", fence(10)))
			asked := effect("run", "a", fence(11))
			if e := p.meet(asked, false); e.State != ledger.Unknown || e.Attempts != 1 {
				fail("met: %+v", e)
			}
			if e := p.issueAgain(asked); e.Attempts != 2 {
				fail("issued anew: %+v", e)
			}
		},
	},
	{
		name: "issue-of-another-run",
		rule: "what is Issued to another run is that run's, until that run is adopted",
		check: func(p *probe) {
			e := p.issue(keyed("one", "a", fence(10)))
			two := keyed("two", "a", fence(20))
			for _, again := range []bool{false, true} {
				if now := p.meet(two, again); now.State != ledger.Issued || now.RunID != "one" {
					fail("met: %+v", now)
				}
			}
			p.wantSame(e)
			p.adopt("one", fence(11))
			p.meet(two, false)
			if now := p.issueAgain(two); now.RunID != "two" || now.Session != two.Session || now.Attempts != 2 {
				fail("issued anew: %+v", now)
			}
			p.adopt("one", fence(12))
			p.wantState("a", ledger.Issued, 2)
		},
	},
	{
		name: "issue-after-another-run",
		rule: "what another run has finished is known to all runs, by its Key",
		check: func(p *probe) {
			one, two := fence(10), fence(1)
			p.finish(p.issue(keyed("one", "a", one)), paid)
			if now := p.meet(keyed("two", "a", two), true); string(compact(now.Result)) != string(paid.Result) {
				fail("met: %+v", now)
			}
			p.finish(p.issue(keyed("one", "b", one)), failed)
			if now := p.issueAgain(keyed("two", "b", two)); now.RunID != "two" {
				fail("issued anew: %+v", now)
			}
		},
	},
}
