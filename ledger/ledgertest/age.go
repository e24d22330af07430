package ledgertest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
)

// clocks is how far the clock of a ledger may be from the clock of the caller after a short time.
const clocks = time.Millisecond

var ageClauses = []clause{
	{
		name: "age",
		rule: "each effect that is returned says how long ago its last attempt was issued",
		check: func(p *probe) {
			f := fence(10)
			asked := effect("run", "a", f)
			start := time.Now()
			e := p.issue(asked)
			wantAge(start, 0, e, p.kept("a"), p.issue(asked))
			least := p.older("a", clocks)
			changed := asked
			changed.ArgsSum = "k:2"
			met, _, err := p.ledger.Issue(p.ctx, changed, false)
			want(err, ledger.ErrChanged)
			wantAge(start, least, met, p.issue(asked))
			for _, q := range []ledger.Query{
				{},
				{Brief: true},
				{Open: true},
				{Orchestrator: "bot", Open: true, Brief: true},
				{RunID: "run"},
				{Session: "session of run", Brief: true},
				{ID: "a", Brief: true},
			} {
				wantAge(start, least, p.effects(q)...)
			}
			wantAge(start, least, p.finish(e, unknown), p.meet(asked, false), p.finish(e, paid), p.finish(e, paid))

			start = time.Now()
			answer := pure("run", "b", `"answer"`)
			wantAge(start, 0, p.record(answer))
			least = p.older("b", clocks)
			wantAge(start, least, p.record(answer), p.kept("b"))
		},
	},
	{
		name: "age-again",
		rule: "with a new attempt the age begins anew",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			first := p.issue(asked)
			p.older("a", 3*clocks)
			p.finish(first, failed)
			start := time.Now()
			wantAge(start, 0, p.issueAgain(asked), p.kept("a"))
		},
	},
	{
		name: "age-stays",
		rule: "the age goes on with another owner, and after the attempt has ended",
		check: func(p *probe) {
			start := time.Now()
			e := p.issue(effect("run", "a", fence(10)))
			least := p.older("a", clocks)
			p.adopt("run", fence(11))
			wantAge(start, least, p.kept("a"))
			p.finish(e, unknown)
			ok(p.resolve("a", ledger.Answer{Landed: true, Result: json.RawMessage(`1`), By: "Ann"}))
			all := append(p.effects(ledger.Query{AnsweredWithin: time.Hour}), p.kept("a"))
			wantAge(start, least, all...)
		},
	},
}

// wantAge checks the age of effects whose last attempt was issued after start.
func wantAge(start time.Time, least time.Duration, all ...ledger.Effect) {
	most := time.Since(start) + clocks
	for _, e := range all {
		if e.Age < least || e.Age > most {
			fail("the age is %v, want %v to %v, of %+v", e.Age, least, most, e)
		}
	}
	if len(all) == 0 {
		fail("no effect")
	}
}

// older waits until an effect is older than a short time, and returns the age.
func (p *probe) older(id string, d time.Duration) time.Duration {
	for deadline := time.Now().Add(time.Second); ; {
		late := time.Now().After(deadline)
		switch e := p.kept(id); {
		case e.Age > d:
			return e.Age
		case late:
			fail("the age is %v after a second: %+v", e.Age, e)
		}
	}
}
