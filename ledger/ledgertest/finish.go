package ledgertest

import (
	"encoding/json"
	"math"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var finishClauses = []clause{
	{
		name: "finish",
		rule: "Finish keeps the outcome of the attempt, and returns the effect as it stands then",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"a": paid, "b": failed, "c": unknown, "d": skipped} {
				e := p.finish(p.issue(effect("run of "+id, id, fence(10))), o)
				if e.State != o.State || string(compact(e.Result)) != string(o.Result) || e.Error != o.Error ||
					e.FinishedAt.IsZero() || e.AnsweredBy != "" {
					fail("finished with %+v: %+v", o, e)
				}
				p.wantSame(e)
			}
		},
	},
	{
		name: "finish-first-result",
		rule: "the first result stays for ever, and is returned",
		check: func(p *probe) {
			first := p.finish(p.issue(effect("run", "a", fence(10))), paid)
			for _, o := range []ledger.Outcome{
				{State: ledger.Completed, Result: json.RawMessage(`"another"`)}, failed, unknown, skipped,
			} {
				if now := p.finish(first, o); string(compact(now.Result)) != string(paid.Result) {
					fail("the result is %s after %+v", now.Result, o)
				}
			}
			p.wantSame(first)
		},
	},
	{
		name: "finish-late-result",
		rule: "the result of an owner that has been fenced off is taken, in each state but Completed",
		check: func(p *probe) {
			late := p.issue(effect("run", "a", fence(10)))
			next := fence(11)
			p.adopt("run", next)
			p.finish(late, paid)
			p.wantState("a", ledger.Completed, 1)

			late = p.issue(effect("run", "b", next))
			last := p.issueAgain(effect("run", "b", next))
			p.finish(late, paid)
			p.wantState("b", ledger.Completed, 2)
			p.finish(last, ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"second"`)})
			if e := p.kept("b"); string(compact(e.Result)) != string(paid.Result) {
				fail("the second result wins: %+v", e)
			}

			for id, o := range map[string]ledger.Outcome{"c": failed, "d": skipped} {
				e := p.issue(effect("run", id, next))
				p.finish(e, o)
				p.finish(e, paid)
				p.wantState(id, ledger.Completed, 1)
			}
		},
	},
	{
		name: "finish-late-failure",
		rule: "an attempt that is not the last changes nothing, unless it has a result",
		check: func(p *probe) {
			f := fence(10)
			late := p.issue(effect("run", "a", f))
			now := p.issueAgain(effect("run", "a", f))
			never := now
			never.Attempts = math.MaxInt32
			for _, o := range []ledger.Outcome{failed, unknown, skipped} {
				p.finish(late, o)
				p.finish(never, o)
			}
			p.wantSame(now)
		},
	},
	{
		name: "finish-adopted",
		rule: "after Adopt the last attempt may still say that it has failed",
		check: func(p *probe) {
			e, _ := p.doubtful("run", "a")
			p.finish(e, failed)
			p.wantState("a", ledger.Failed, 1)
		},
	},
	{
		name: "finish-closed",
		rule: "what has Failed or is Skipped changes by a result only",
		check: func(p *probe) {
			for id, o := range map[string]ledger.Outcome{"a": failed, "b": skipped} {
				e := p.finish(p.issue(effect("run of "+id, id, fence(10))), o)
				for _, other := range []ledger.Outcome{failed, unknown, skipped} {
					p.finish(e, other)
				}
				p.wantSame(e)
			}
		},
	},
	{
		name: "finish-not-found",
		rule: "Finish of what was never issued, or an answer for it, is ErrNotFound",
		check: func(p *probe) {
			_, err := p.ledger.Finish(p.ctx, "a", 1, paid)
			want(err, ledger.ErrNotFound)
			_, err = p.ledger.Finish(p.ctx, "a", 1, ledger.Outcome{State: ledger.Failed, By: "Ann"})
			want(err, ledger.ErrNotFound)
			want(p.resolve("a", ledger.Answer{Landed: true, By: "Ann"}), ledger.ErrNotFound)
		},
	},
}

var recordClauses = []clause{
	{
		name: "record",
		rule: "Record keeps an effect and its result in one step",
		check: func(p *probe) {
			asked := pure("run", "a", `"answer"`)
			e := p.record(asked)
			if e.State != ledger.Completed || e.Attempts != 1 || e.FinishedAt.IsZero() ||
				string(compact(e.Result)) != `"answer"` {
				fail("recorded: %+v", e)
			}
			p.wantSame(e)
		},
	},
	{
		name: "record-first",
		rule: "what is Completed stays, and is returned, also for other arguments",
		check: func(p *probe) {
			asked := pure("run", "a", `"answer"`)
			first := p.record(asked)
			asked.ArgsSum, asked.Result = "k:2", json.RawMessage(`"another"`)
			if e := p.record(asked); string(compact(e.Result)) != `"answer"` {
				fail("recorded: %+v", e)
			}
			p.wantSame(first)
		},
	},
	{
		name: "record-over-failed",
		rule: "what is not Completed gets the result",
		check: func(p *probe) {
			asked := pure("run", "a", `"answer"`)
			p.finish(p.issue(asked), failed)
			p.record(asked)
			if e := p.kept("a"); e.State != ledger.Completed || e.Error != "" {
				fail("recorded: %+v", e)
			}
		},
	},
	{
		name: "record-fenced",
		rule: "Record under a lower fence is ErrFenced, and under a higher one adopts the run",
		check: func(p *probe) {
			e, _ := p.doubtful("run", "open")
			p.record(pure("run", "a", `1`))
			_, _, err := p.ledger.Issue(p.ctx, effect("run", "c", fence(12)), false)
			want(err, lock.ErrFenced)
			low := pure("run", "b", `1`)
			low.Fence = fence(9)
			_, err = p.ledger.Record(p.ctx, low)
			want(err, lock.ErrFenced)
			p.wantSame(e)
			if all := p.effects(ledger.Query{ID: "b"}); len(all) > 0 {
				fail("a refused Record leaves %+v", all)
			}
		},
	},
}

// highest is a fence that no clause exceeds.
var highest = fence(1000)

// pure returns an effect that is ready to be recorded, by an owner of the run that no clause fences off.
func pure(run, id, result string) ledger.Effect {
	e := effect(run, id, highest)
	e.Class, e.Result = ledger.Pure, json.RawMessage(result)
	return e
}

func (p *probe) record(e ledger.Effect) ledger.Effect {
	now, err := p.ledger.Record(p.ctx, e)
	ok(err)
	return now
}
