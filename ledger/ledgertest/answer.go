package ledgertest

import (
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var answerClauses = []clause{
	{
		name: "answer",
		rule: "an answer for what is in doubt is kept, with who gave it and when",
		check: func(p *probe) {
			for id, c := range map[string]struct {
				answer ledger.Answer
				want   ledger.State
			}{
				"landed":     {ledger.Answer{Landed: true, Result: json.RawMessage(`"receipt"`)}, ledger.Completed},
				"not landed": {ledger.Answer{}, ledger.Failed},
				"skip":       {ledger.Answer{Skip: true}, ledger.Skipped},
			} {
				p.doubtful("run of "+id, id)
				c.answer.By = "Ann"
				ok(p.resolve(id, c.answer))
				e := p.wantState(id, c.want, 1)
				if e.AnsweredBy != "Ann" || e.AnsweredAt.IsZero() ||
					string(compact(e.Result)) != string(c.answer.Result) {
					fail("answered: %+v", e)
				}
			}
		},
	},
	{
		name: "answer-issued",
		rule: "an answer for what is Issued is ErrHeld and changes nothing, unless the person is sure",
		check: func(p *probe) {
			e := p.issue(effect("run", "a", fence(10)))
			want(p.resolve("a", ledger.Answer{Landed: true, By: "Ann"}), lock.ErrHeld)
			p.wantSame(e)
			ok(p.resolve("a", ledger.Answer{Skip: true, By: "Ann", Sure: true}))
			p.wantState("a", ledger.Skipped, 1)
		},
	},
	{
		name: "answer-twice",
		rule: "an answer for what is not in doubt is ErrAnswered and changes nothing",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"a": paid, "b": failed, "c": skipped} {
				e := p.finish(p.issue(effect("run of "+id, id, fence(10))), o)
				for _, a := range []ledger.Answer{{Landed: true}, {Skip: true}, {}, {Landed: true, Sure: true}} {
					a.By = "Ann"
					want(p.resolve(id, a), ledger.ErrAnswered)
				}
				p.wantSame(e)
			}
		},
	},
	{
		name: "answer-earlier-attempt",
		rule: "an answer for an attempt that is not the last is ErrAnswered",
		check: func(p *probe) {
			first, next := p.doubtful("run", "a")
			p.finish(p.issueAgain(effect("run", "a", next)), unknown)
			_, err := p.ledger.Finish(p.ctx, "a", first.Attempts, ledger.Outcome{State: ledger.Completed, By: "Ann"})
			want(err, ledger.ErrAnswered)
			p.wantState("a", ledger.Unknown, 2)
		},
	},
	{
		name: "answer-late-result",
		rule: "a late result is taken after an answer too, and the answer stays",
		check: func(p *probe) {
			e, _ := p.doubtful("run", "a")
			ok(p.resolve("a", ledger.Answer{Skip: true, By: "Ann"}))
			p.finish(e, paid)
			if e := p.wantState("a", ledger.Completed, 1); e.AnsweredBy != "Ann" {
				fail("answered by %q", e.AnsweredBy)
			}
		},
	},
	{
		name: "answer-issued-anew",
		rule: "what a person says did not land may be issued anew, and then has no answer",
		check: func(p *probe) {
			_, next := p.doubtful("run", "a")
			ok(p.resolve("a", ledger.Answer{By: "Ann"}))
			e := p.issueAgain(effect("run", "a", next))
			if e.Attempts != 2 || e.AnsweredBy != "" || !e.AnsweredAt.IsZero() {
				fail("issued anew: %+v", e)
			}
		},
	},
	{
		name: "answer-race",
		rule: "of two answers at once one is taken",
		check: func(p *probe) {
			for range races {
				id := fence(1).Nonce
				p.doubtful("run of "+id, id)
				var errs [2]error
				suite.Together(
					func() { errs[0] = p.resolve(id, ledger.Answer{Skip: true, By: "Ann"}) },
					func() { errs[1] = p.resolve(id, ledger.Answer{Landed: true, By: "Bob"}) },
				)
				if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), ledger.ErrAnswered) {
					fail("two answers return %v", errs)
				}
				winner := "Ann"
				if errs[0] != nil {
					winner = "Bob"
				}
				if e := p.kept(id); e.AnsweredBy != winner {
					fail("%s was told that the answer counts, and it is that of %q", winner, e.AnsweredBy)
				}
			}
		},
	},
}

// races is how often a race is run.
const races = 20
