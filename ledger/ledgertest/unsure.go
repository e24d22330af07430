package ledgertest

import "github.com/holdfast-go/holdfast/ledger"

// doubts are the ways in which an attempt may have happened.
var doubts = map[string]func(p *probe, e ledger.Effect){
	"unknown": func(p *probe, e ledger.Effect) { p.finish(e, unknown) },
	"issued":  func(*probe, ledger.Effect) {},
}

var unsureClauses = []clause{
	{
		name: "unsure-failed",
		rule: "if an earlier attempt was Unknown or Issued, the failure of the last one makes the effect Unknown",
		check: func(p *probe) {
			for id, doubt := range doubts {
				asked := effect("run of "+id, id, fence(10))
				doubt(p, p.issue(asked))
				last := p.issueAgain(asked)
				now := p.finish(last, failed)
				if now.State != ledger.Unknown || now.Error != failed.Error || now.FinishedAt.IsZero() || !now.Unsure {
					fail("failed after an attempt that is %s: %+v", id, now)
				}
				p.wantSame(now)
				p.finish(last, failed) // the first answer may have been lost
				p.wantUnsure(id, ledger.Unknown, true)
			}
		},
	},
	{
		name: "unsure-failed-only",
		rule: "if each earlier attempt has Failed, the failure of the last one makes the effect Failed",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			p.finish(p.issue(asked), failed)
			for range 2 {
				p.finish(p.issueAgain(asked), failed)
				p.wantUnsure("a", ledger.Failed, false)
			}
		},
	},
	{
		name: "unsure-issue",
		rule: "an attempt after one that may have happened is Unsure, and another is not",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			e := p.issue(asked)
			p.wantUnsure("a", ledger.Issued, false)
			p.finish(e, failed)
			e = p.issueAgain(asked)
			p.wantUnsure("a", ledger.Issued, false)
			p.finish(e, unknown)
			p.wantUnsure("a", ledger.Unknown, false)
			if e = p.issueAgain(asked); !e.Unsure {
				fail("issued anew: %+v", e)
			}
			p.wantUnsure("a", ledger.Issued, true)
			asked.Attempts = e.Attempts - 1
			for _, known := range []ledger.State{ledger.Unknown, ledger.Failed} { // a copy of the call changes nothing
				asked.State = known
				if again := p.issueAs(asked, true, true); again.Attempts != e.Attempts || !again.Unsure {
					fail("repeated: %+v", again)
				}
			}
			p.wantSame(e)
		},
	},
	{
		name: "unsure-told",
		rule: "if the caller of Issue says that the effect has Failed, the new attempt is not Unsure",
		check: func(p *probe) {
			for id, doubt := range doubts {
				asked := effect("run of "+id, id, fence(10))
				doubt(p, p.issue(asked))
				doubt(p, p.issueAgain(asked))
				asked.State = ledger.Failed
				e := p.issueAgain(asked)
				if e.Unsure {
					fail("issued anew: %+v", e)
				}
				p.wantUnsure(id, ledger.Issued, false)
				p.finish(e, failed)
				p.wantUnsure(id, ledger.Failed, false)
			}
		},
	},
	{
		name: "unsure-not-told",
		rule: "any other State than Failed says nothing to Issue",
		check: func(p *probe) {
			for _, s := range []ledger.State{ledger.Issued, ledger.Completed, ledger.Unknown, ledger.Skipped} {
				asked := effect("run of "+string(s), string(s), fence(10))
				p.finish(p.issue(asked), unknown)
				asked.State = s
				p.issueAgain(asked)
				p.wantUnsure(asked.ID, ledger.Issued, true)
			}
		},
	},
	{
		name: "unsure-answer",
		rule: "an answer of a person is about all attempts",
		check: func(p *probe) {
			for id, c := range map[string]struct {
				answer ledger.Answer
				want   ledger.State
			}{
				"landed":     {ledger.Answer{Landed: true}, ledger.Completed},
				"not landed": {ledger.Answer{}, ledger.Failed},
				"skip":       {ledger.Answer{Skip: true}, ledger.Skipped},
			} {
				asked := effect("run of "+id, id, fence(10))
				p.finish(p.unsure(asked), unknown)
				c.answer.By = "Ann"
				ok(p.resolve(id, c.answer))
				p.wantUnsure(id, c.want, false)
				if c.want == ledger.Failed {
					p.finish(p.issueAgain(asked), failed)
					p.wantUnsure(id, ledger.Failed, false)
				}
			}
		},
	},
	{
		name: "unsure-adopted",
		rule: "what is Unsure stays so when another owner adopts the run, and the late failure does not end it",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			late := p.unsure(asked)
			p.adopt("run", fence(11))
			p.wantUnsure("a", ledger.Unknown, true)
			if now := p.finish(late, failed); now.State != ledger.Unknown || now.Error != failed.Error || !now.Unsure {
				fail("failed: %+v", now)
			}
		},
	},
	{
		name: "unsure-of-another-run",
		rule: "what another run has left Unknown is Unsure when it is issued to this one",
		check: func(p *probe) {
			p.issue(keyed("one", "a", fence(10)))
			p.adopt("one", fence(11))
			two := keyed("two", "a", fence(20))
			p.finish(p.issueAgain(two), failed)
			p.wantUnsure("a", ledger.Unknown, true)
		},
	},
	{
		name: "unsure-ended",
		rule: "what is Completed or Skipped is not Unsure",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"paid": paid, "skipped": skipped} {
				if now := p.finish(p.unsure(effect("run of "+id, id, fence(10))), o); now.Unsure {
					fail("finished: %+v", now)
				}
				p.wantUnsure(id, o.State, false)
			}
			answer := pure("run", "answer", `"answer"`)
			p.unsure(answer)
			if now := p.record(answer); now.Unsure {
				fail("recorded: %+v", now)
			}
			p.wantUnsure("answer", ledger.Completed, false)
		},
	},
	{
		name: "unsure-listed",
		rule: "each query tells what is Unsure",
		check: func(p *probe) {
			f := fence(10)
			asked := effect("run", "unsure", f)
			asked.Args = large(100_000) // on many pages
			p.unsure(asked)
			p.issue(effect("run", "sure", f))
			for _, q := range []ledger.Query{
				{}, {Open: true}, {RunID: "run"}, {Session: "session of run"}, {Orchestrator: "bot", Open: true},
			} {
				for _, q.Brief = range []bool{false, true} {
					all := p.effects(q)
					if len(all) != 2 || !all[0].Unsure || all[1].Unsure {
						fail("%+v yields %+v", q, all)
					}
				}
			}
			for _, id := range []string{"unsure", "sure"} {
				for _, brief := range []bool{false, true} {
					if all := p.effects(ledger.Query{ID: id, Brief: brief}); all[0].Unsure != (id == "unsure") {
						fail("brief %t: %+v", brief, all[0])
					}
				}
			}
			met, _, err := p.ledger.Issue(p.ctx, keyed("two", "unsure", fence(10)), false)
			if ok(err); !met.Unsure {
				fail("met: %+v", met)
			}
		},
	},
}

// unsure issues an effect twice, so that the first attempt may have happened.
func (p *probe) unsure(e ledger.Effect) ledger.Effect {
	p.issue(e)
	return p.issueAgain(e)
}

// wantUnsure checks the state of an effect, and whether it is Unsure.
func (p *probe) wantUnsure(id string, s ledger.State, unsure bool) {
	if e := p.kept(id); e.State != s || e.Unsure != unsure {
		fail("effect %s is %s, unsure %t, want %s, unsure %t", id, e.State, e.Unsure, s, unsure)
	}
}
