package ledgertest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// ids returns the ids of what a query selects.
func (p *probe) ids(q ledger.Query) (all []string) {
	for _, e := range p.effects(q) {
		all = append(all, e.ID)
	}
	return all
}

var readClauses = []clause{
	{
		name: "effects",
		rule: "Effects yields what the query selects, the first issued first",
		check: func(p *probe) {
			f := fence(10)
			p.issue(effect("one", "c", f))
			p.finish(p.issue(effect("one", "b", f)), paid)
			other := effect("two", "a", f)
			other.Orchestrator = "other"
			p.issue(other)
			p.finish(p.issueAgain(effect("one", "c", f)), unknown)
			p.finish(p.issue(effect("two", "d", f)), failed)
			for _, c := range []struct {
				q    ledger.Query
				want []string
			}{
				{ledger.Query{}, []string{"c", "b", "a", "d"}},
				{ledger.Query{Orchestrator: "bot"}, []string{"c", "b", "d"}},
				{ledger.Query{Session: "session of two"}, []string{"a", "d"}},
				{ledger.Query{RunID: "one"}, []string{"c", "b"}},
				{ledger.Query{ID: "b"}, []string{"b"}},
				{ledger.Query{Open: true}, []string{"c", "a"}},
				{ledger.Query{Open: true, Orchestrator: "bot", RunID: "one", Session: "session of one"}, []string{"c"}},
				{ledger.Query{ID: "b", Open: true}, nil},
				{ledger.Query{RunID: "three"}, nil},
			} {
				if got := p.ids(c.q); !slices.Equal(got, c.want) {
					fail("%+v selects %q, want %q", c.q, got, c.want)
				}
			}
		},
	},
	{
		name: "effects-reentrant",
		rule: "the loop over Effects may use the ledger, and may be left",
		check: func(p *probe) {
			f := fence(10)
			for i := range 5 {
				p.issue(effect("run", fmt.Sprint("e", i), f))
			}
			seen := 0
			for e, err := range p.ledger.Effects(p.ctx, ledger.Query{Open: true}) {
				ok(err)
				p.finish(e, paid)
				if seen++; seen == 3 {
					break
				}
			}
			if got := p.ids(ledger.Query{Open: true}); len(got) != 2 {
				fail("still open: %q", got)
			}
		},
	},
	{
		name: "effects-brief",
		rule: "a brief query leaves out the documents and the error, and nothing else",
		check: func(p *probe) {
			issued := p.issue(keyed("run", "a", fence(10)))
			e := p.finish(issued, ledger.Outcome{State: ledger.Unknown, Error: "timeout"})
			e.Args, e.Error = nil, ""
			for _, q := range []ledger.Query{{Brief: true}, {Brief: true, Open: true}, {Brief: true, ID: "a"}} {
				if all := p.effects(q); len(all) != 1 || !reflect.DeepEqual(plain(all[0]), plain(e)) {
					fail("%+v yields %+v, want %+v", q, all, e)
				}
			}
		},
	},
	{
		name: "effects-answered",
		rule: "AnsweredWithin selects what a person has answered in that time, and nothing else",
		check: func(p *probe) {
			for _, id := range []string{"landed", "skipped", "failed", "late", "again", "doubtful"} {
				p.doubtful("run of "+id, id)
			}
			ann := ledger.Answer{By: "Ann"}
			ok(p.resolve("landed", ledger.Answer{By: "Ann", Landed: true, Result: json.RawMessage(`1`)}))
			ok(p.resolve("skipped", ledger.Answer{By: "Ann", Skip: true}))
			ok(p.resolve("failed", ann))
			p.finish(p.kept("late"), paid)
			ok(p.resolve("again", ann))
			anew := effect("run of again", "again", fence(12))
			anew.Attempts = 1
			p.issueAs(anew, true, true)
			p.finish(p.issue(effect("another run", "paid", fence(10))), paid)
			for _, c := range []struct {
				q    ledger.Query
				want []string
			}{
				{ledger.Query{}, []string{"landed", "skipped", "failed"}},
				{ledger.Query{Orchestrator: "bot", Brief: true}, []string{"landed", "skipped", "failed"}},
				{ledger.Query{Orchestrator: "other"}, nil},
				{ledger.Query{RunID: "run of skipped"}, []string{"skipped"}},
				{ledger.Query{RunID: "run of late"}, nil},
				{ledger.Query{Session: "session of run of failed"}, []string{"failed"}},
				{ledger.Query{ID: "landed"}, []string{"landed"}},
				{ledger.Query{ID: "paid"}, nil},
				{ledger.Query{Open: true}, nil},
			} {
				c.q.AnsweredWithin = time.Hour
				if got := p.ids(c.q); !slices.Equal(got, c.want) {
					fail("%+v selects %q, want %q", c.q, got, c.want)
				}
			}
			const most = 1000 // until the ledger's clock has moved on
			for n := 0; len(p.effects(ledger.Query{AnsweredWithin: time.Microsecond})) > 0; n++ {
				if n == most {
					fail("an answer of some time ago is selected as one of the last microsecond")
				}
			}
		},
	},
	{
		name: "effects-many",
		rule: "Effects yields each of many effects once",
		check: func(p *probe) {
			const n = 250
			f := fence(10)
			for i := range n {
				p.issue(effect("run", fmt.Sprintf("e%03d", i), f))
			}
			all := p.ids(ledger.Query{RunID: "run"})
			if len(all) != n || !slices.IsSorted(all) {
				fail("%d effects: %q", len(all), all)
			}
		},
	},
}

var pruneClauses = []clause{
	{
		name: "prune",
		rule: "Prune forgets what is not open and has no Key, if it came to its state before the time",
		check: func(p *probe) {
			if n := p.prune(later()); n != 0 {
				fail("forgets %d of nothing", n)
			}
			f := fence(10)
			for id, o := range map[string]ledger.Outcome{"paid": paid, "failed": failed, "skipped": skipped} {
				p.finish(p.issue(effect("run", id, f)), o)
			}
			if n := p.prune(time.Now().Add(-time.Hour)); n != 0 {
				fail("forgets %d young effects", n)
			}
			if n := p.prune(later()); n != 3 || len(p.effects(ledger.Query{})) > 0 {
				fail("forgets %d, and %q are left", n, p.ids(ledger.Query{}))
			}
			p.issue(effect("run", "paid", f))
		},
	},
	{
		name: "prune-keeps",
		rule: "Prune forgets nothing that is open, and nothing with a Key",
		check: func(p *probe) {
			f := fence(10)
			all := []ledger.Effect{
				p.issue(effect("run", "a", f)),
				p.finish(p.issue(effect("run", "b", f)), unknown),
				p.finish(p.issue(keyed("run", "c", f)), paid),
				p.finish(p.issue(keyed("run", "d", f)), failed),
				p.finish(p.issue(keyed("run", "e", f)), skipped),
			}
			if n := p.prune(later()); n != 0 {
				fail("forgets %d", n)
			}
			for _, e := range all {
				p.wantSame(e)
			}
		},
	},
	{
		name: "prune-fences",
		rule: "Prune keeps the fence of a run that has effects, and the fence of a run that was adopted since the time",
		check: func(p *probe) {
			p.issue(effect("busy", "a", fence(10)))
			p.prune(later())
			want(p.ledger.Adopt(p.ctx, "busy", fence(9)), lock.ErrFenced)
			p.adopt("young", fence(10))
			p.prune(time.Now().Add(-time.Hour))
			want(p.ledger.Adopt(p.ctx, "young", fence(9)), lock.ErrFenced)
			p.adopt("old", fence(10))
			p.prune(later())
			p.adopt("old", fence(9)) // it is forgotten
		},
	},
}

func (p *probe) prune(before time.Time) int {
	n, err := p.ledger.Prune(p.ctx, before)
	ok(err)
	return n
}
