package turnlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// of returns an entry of another session and orchestrator.
func of(e turnlog.Entry, orchestrator, session string) turnlog.Entry {
	e.Orchestrator, e.Session = orchestrator, session
	return e
}

var turnsClauses = []clause{
	{
		name: "turns",
		rule: "Turns yields what the query selects, in the order of the first entries",
		check: func(p *probe) {
			p.record(
				of(entry("c", turnlog.Started, 0), "bot", "one"), of(entry("c", turnlog.Settled, 9), "bot", "one"),
				of(entry("b", turnlog.Started, 1), "bot", "one"),
				of(entry("b", turnlog.ToolReceived, 90), "bot", "one"),
				of(entry("a", turnlog.Started, 2), "other", "one"),
				of(entry("d", turnlog.Started, 3), "bot", "two"),
				of(entry("e", turnlog.Started, 4), "other", "two"), of(entry("e", turnlog.Settled, 5), "other", "two"),
			)
			for _, c := range []struct {
				q    turnlog.Query
				want []string
			}{
				{turnlog.Query{}, []string{"c", "b", "a", "d", "e"}},
				{turnlog.Query{Orchestrator: "bot"}, []string{"c", "b", "d"}},
				{turnlog.Query{Session: "one"}, []string{"c", "b", "a"}},
				{turnlog.Query{Orchestrator: "other", Session: "two"}, []string{"e"}},
				{turnlog.Query{Open: true}, []string{"b", "a", "d"}},
				{turnlog.Query{Open: true, Orchestrator: "bot"}, []string{"b", "d"}},
				{turnlog.Query{Open: true, Session: "one"}, []string{"b", "a"}},
				{turnlog.Query{Open: true, Orchestrator: "bot", Session: "one"}, []string{"b"}},
				{turnlog.Query{Open: true, Orchestrator: "other", Session: "two"}, nil},
				{turnlog.Query{Limit: 2}, []string{"c", "b"}},
				{turnlog.Query{Open: true, Limit: 2}, []string{"b", "a"}},
				{turnlog.Query{Session: "none"}, nil},
				{turnlog.Query{Orchestrator: "none"}, nil},
			} {
				if got := p.runs(c.q); !slices.Equal(got, c.want) {
					fail("%+v selects %q, want %q", c.q, got, c.want)
				}
			}
		},
	},
	{
		name: "turns-summary",
		rule: "a turn comes with its first and its last entry by time, in whatever order they were recorded",
		check: func(p *probe) {
			last, first := entry("run", turnlog.ToolReceived, 900), entry("run", turnlog.Started, 0)
			p.record(entry("run", turnlog.LLMComplete, 50), last, first, entry("run", turnlog.LLMComplete, 800))
			p.wantSummary("run", first, last)
			p.record(entry("run", turnlog.Settled, 1000))
			p.wantSummary("run", first, entry("run", turnlog.Settled, 1000))
			alone := entry("alone", turnlog.Started, 5)
			p.record(alone)
			p.wantSummary("alone", alone, alone)
		},
	},
	{
		name: "turns-number",
		rule: "a turn has the highest number that was recorded, and its orchestrator",
		check: func(p *probe) {
			for i, number := range []int{3, 5, 4} {
				e := entry("run", turnlog.ToolReceived, i)
				e.Turn = number
				p.record(e)
			}
			for _, e := range append(p.restore("run"), p.turns(turnlog.Query{})[0].Last) {
				if e.Turn != 5 || e.Orchestrator != "bot" {
					fail("turn %d of %q, want 5 of \"bot\"", e.Turn, e.Orchestrator)
				}
			}
		},
	},
	{
		name: "turns-ties",
		rule: "entries of one run and one time are in the order of their phases",
		check: func(p *probe) {
			p.record(entry("run", "peer-call ", 0), entry("run", "Peer-Call", 0), entry("run", "peer-call", 0))
			p.wantEntries("run",
				entry("run", "Peer-Call", 0), entry("run", "peer-call", 0), entry("run", "peer-call ", 0))
			p.wantSummary("run", entry("run", "Peer-Call", 0), entry("run", "peer-call ", 0))
		},
	},
	{
		name: "turns-late",
		rule: "a turn that has settled stays settled if another phase comes after Settled",
		check: func(p *probe) {
			late := entry("run", turnlog.ToolReceived, 9)
			p.record(
				entry("run", turnlog.Started, 1), entry("run", turnlog.Settled, 5),
				late, entry("run", "peer-call", 3),
			)
			p.record(entry("early", turnlog.Settled, 5), entry("early", turnlog.Started, 1))
			p.wantOpen()
			p.wantSummary("run", entry("run", turnlog.Started, 1), late)
			p.wantSummary("early", entry("early", turnlog.Started, 1), entry("early", turnlog.Settled, 5))
		},
	},
	{
		name: "turns-anew",
		rule: "Started after the last Settled opens a turn again, in whatever order they were recorded",
		check: func(p *probe) {
			p.record(
				entry("run", turnlog.Started, 1), entry("run", turnlog.Settled, 5),
				entry("run", turnlog.LLMComplete, 6),
				entry("early", turnlog.Started, 10), entry("early", turnlog.Settled, 5),
				entry("early", turnlog.Started, 1),
			)
			p.wantOpen("early")
			p.record(entry("run", turnlog.Started, 10))
			p.wantOpen("early", "run")
			p.record(entry("run", turnlog.Settled, 9), entry("early", "peer-call", 20))
			p.wantOpen("early", "run")
			if got := turnlog.Judge(p.restore("run")); got != turnlog.StartNew {
				fail("the recovery is %q, want %q", got, turnlog.StartNew)
			}
			p.record(entry("run", turnlog.Settled, 12))
			p.wantOpen("early")
			p.record(entry("early", turnlog.Settled, 12), entry("early", turnlog.Started, 2))
			p.wantOpen()
			p.record(entry("tie", turnlog.Started, 7), entry("tie", turnlog.Settled, 7))
			p.wantOpen("tie")
		},
	},
	{
		name: "turns-old",
		rule: "OlderThan selects turns by the age of their last entry",
		check: func(p *probe) {
			now := time.Now().UTC().Truncate(time.Millisecond)
			for run, age := range map[string]time.Duration{"old": 3 * time.Hour, "young": time.Minute} {
				e, f := entry(run, turnlog.Started, 0), entry(run, turnlog.LLMComplete, 0)
				e.At, f.At = now.Add(-4*time.Hour), now.Add(-age)
				p.record(e, f)
			}
			ahead := entry("the future", turnlog.Started, 0) // its owner recorded faster than one entry a millisecond
			ahead.At = now.Add(time.Hour)
			p.record(ahead)
			for age, wanted := range map[time.Duration][]string{
				0: {"old", "young", "the future"}, 1: {"old", "young"}, time.Hour: {"old"}, 100 * time.Hour: nil,
			} {
				for _, open := range []bool{false, true} {
					if got := p.runs(turnlog.Query{OlderThan: age, Open: open}); !slices.Equal(got, wanted) {
						fail("older than %v: %q, want %q", age, got, wanted)
					}
				}
			}
		},
	},
	{
		name: "turns-pages",
		rule: "After and AfterRun go on where a page has ended, also between turns that begin at one time",
		check: func(p *probe) {
			var all []string
			for i := range 11 {
				run := fmt.Sprintf("run %02d", i)
				all = append(all, run)
				p.record(entry(run, turnlog.Started, i/4)) // four begin at one time
			}
			for _, limit := range []int{1, 2, 3, 5, 11, 12} {
				for _, open := range []bool{false, true} {
					var got []string
					for q := (turnlog.Query{Limit: limit, Open: open, Orchestrator: "bot"}); ; {
						page := p.turns(q)
						for _, s := range page {
							got = append(got, s.First.Run)
						}
						if len(page) < limit || len(got) > len(all) {
							break
						}
						q.After, q.AfterRun = page[limit-1].First.At, page[limit-1].First.Run
					}
					if !slices.Equal(got, all) {
						fail("in pages of %d: %q", limit, got)
					}
				}
			}
			if got := p.runs(turnlog.Query{After: at(0)}); !slices.Equal(got, all[4:]) {
				fail("after the time of the first: %q", got)
			}
			if got := p.runs(turnlog.Query{After: at(2)}); len(got) > 0 {
				fail("after the time of the last: %q", got)
			}
			if got := p.runs(turnlog.Query{After: at(0), AfterRun: "run 01x"}); !slices.Equal(got, all[2:]) {
				fail("after a run that is gone: %q", got)
			}
		},
	},
	{
		name: "turns-many",
		rule: "Turns yields each of many turns once",
		check: func(p *probe) {
			const n = 250
			for i := range n {
				p.record(entry(fmt.Sprintf("run %03d", i), turnlog.Started, i/3))
			}
			for _, q := range []turnlog.Query{{}, {Open: true}, {Session: "session"}} {
				if all := p.runs(q); len(all) != n || !slices.IsSorted(all) {
					fail("%+v selects %d turns: %q", q, len(all), all)
				}
			}
		},
	},
	{
		name: "turns-reentrant",
		rule: "the loop over Turns may use the log, and may be left",
		check: func(p *probe) {
			for i := range 5 {
				p.record(entry(fmt.Sprint("run ", i), turnlog.Started, i))
			}
			seen := 0
			for s, err := range p.lister.Turns(p.ctx, turnlog.Query{Open: true}) {
				ok(err)
				p.record(entry(s.First.Run, turnlog.Settled, 100))
				p.prune(at(0))
				if len(p.restore(s.First.Run)) != 2 {
					fail("%d entries", len(p.restore(s.First.Run)))
				}
				if seen++; seen == 3 {
					break
				}
			}
			if got := p.runs(turnlog.Query{Open: true}); len(got) != 2 {
				fail("still open: %q", got)
			}
		},
	},
}

// wantOpen checks which turns are open.
func (p *probe) wantOpen(runs ...string) {
	if got := p.runs(turnlog.Query{Open: true}); !slices.Equal(got, runs) {
		fail("open are %q, want %q", got, runs)
	}
}

// wantSummary checks the first and the last entry of a turn.
func (p *probe) wantSummary(run string, first, last turnlog.Entry) {
	for _, s := range p.turns(turnlog.Query{Session: first.Session}) {
		if s.First.Run != run {
			continue
		}
		if why := differ(s.First, first); why != "" {
			fail("the first entry of run %q: %s", run, why)
		}
		if why := differ(s.Last, last); why != "" {
			fail("the last entry of run %q: %s", run, why)
		}
		return
	}
	fail("run %q is not listed", run)
}

var pruneClauses = []clause{
	{
		name: "prune",
		rule: "Prune forgets turns that settled before the time, and Restore returns nothing of them",
		check: func(p *probe) {
			for i := range 4 {
				run := fmt.Sprint("run ", i)
				p.record(entry(run, turnlog.Started, i), entry(run, turnlog.Settled, 100+i))
			}
			if n := p.prune(at(100)); n != 0 {
				fail("forgets %d young turns", n)
			}
			if n := p.prune(at(102)); n != 2 {
				fail("forgets %d turns, want 2", n)
			}
			if n := p.prune(at(102)); n != 0 {
				fail("forgets %d turns again", n)
			}
			p.wantNothing("run 0")
			p.wantNothing("run 1")
			p.wantEntries("run 2", entry("run 2", turnlog.Started, 2), entry("run 2", turnlog.Settled, 102))
			if got := p.runs(turnlog.Query{}); !slices.Equal(got, []string{"run 2", "run 3"}) {
				fail("left are %q", got)
			}
		},
	},
	{
		name: "prune-keeps",
		rule: "Prune forgets no turn that is open, however old",
		check: func(p *probe) {
			e := []turnlog.Entry{entry("run", turnlog.Started, 0), entry("run", turnlog.ToolReceived, 1)}
			p.record(e...)
			if n := p.prune(time.Now().Add(time.Hour)); n != 0 {
				fail("forgets %d", n)
			}
			p.wantEntries("run", e...)
			p.wantOpen("run")
		},
	},
	{
		name: "prune-late",
		rule: "Prune forgets a turn that has settled, although an entry came after Settled",
		check: func(p *probe) {
			p.record(
				entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1),
				entry("run", turnlog.ToolReceived, 500),
			)
			if n := p.prune(at(2)); n != 1 {
				fail("forgets %d, want 1", n)
			}
			p.wantNothing("run")
		},
	},
	{
		name: "prune-anew-settled",
		rule: "Prune looks at the last Settled of a turn, and forgets no turn that has begun anew",
		check: func(p *probe) {
			for _, run := range []string{"open", "settled"} {
				p.record(
					entry(run, turnlog.Settled, 5), entry(run, turnlog.Started, 1), entry(run, turnlog.Started, 10),
				)
			}
			p.record(entry("settled", turnlog.Settled, 20))
			if n := p.prune(at(20)); n != 0 {
				fail("forgets %d", n)
			}
			if n := p.prune(at(5000)); n != 1 || len(p.restore("open")) != 3 {
				fail("forgets %d, want 1; of the open turn %d entries are left", n, len(p.restore("open")))
			}
		},
	},
	{
		name: "prune-many",
		rule: "Prune forgets each of many turns, with all their entries",
		check: func(p *probe) {
			const n = 120
			for i := range n {
				run := fmt.Sprint("run ", i)
				p.record(entry(run, turnlog.Started, i), entry(run, turnlog.Settled, 1000))
			}
			p.record(entry("open", turnlog.Started, 0))
			if got := p.prune(at(5000)); got != n {
				fail("forgets %d, want %d", got, n)
			}
			for i := range n {
				p.wantNothing(fmt.Sprint("run ", i))
			}
			if got := p.runs(turnlog.Query{}); !slices.Equal(got, []string{"open"}) {
				fail("left are %q", got)
			}
		},
	},
	{
		name: "prune-anew",
		rule: "a run that was forgotten can be recorded anew, with other states",
		check: func(p *probe) {
			e := entry("run", turnlog.Started, 0)
			p.record(e, entry("run", turnlog.Settled, 1))
			p.prune(at(5000))
			e.State = []byte(`"another"`)
			p.record(e)
			p.wantEntries("run", e)
			p.wantOpen("run")
		},
	},
	{
		name: "prune-race",
		rule: "a late entry beside Prune leaves the whole turn, or nothing, or the late entry alone",
		check: func(p *probe) {
			for range races {
				run := newRun()
				started, settled := entry(run, turnlog.Started, 0), entry(run, turnlog.Settled, 1)
				late := entry(run, "peer-call", 2)
				p.record(started, settled)
				var recorded, pruned error
				suite.Together(
					func() { recorded = p.log.Record(p.ctx, late) },
					func() { _, pruned = p.lister.Prune(p.ctx, at(2)) },
				)
				ok(errors.Join(recorded, pruned))
				got := p.restore(run)
				listed := slices.Contains(p.runs(turnlog.Query{}), run)
				switch {
				case listed != (len(got) > 0):
					fail("the run is listed: %t, and its entries are %s", listed, list(got))
				case len(got) == 1:
					p.wantEntries(run, late)
				case len(got) > 1:
					p.wantEntries(run, started, settled, late)
				}
			}
		},
	},
}

var listerValueClauses = []clause{
	{
		name: "lister-refused",
		rule: "a query or a time that no log takes is ErrInvalid, and changes nothing",
		check: func(p *probe) {
			p.record(entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1))
			for what, q := range map[string]turnlog.Query{
				"bytes":            {Orchestrator: "\xff"},
				"NUL":              {Session: "\x00"},
				"a long run":       {AfterRun: strings.Repeat("x", 513)},
				"a negative limit": {Limit: -1},
				"a negative age":   {OlderThan: -1},
				"the year 10000":   {After: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
				"before 1970":      {After: time.UnixMilli(-1)},
			} {
				yields := 0
				for _, err := range p.lister.Turns(p.ctx, q) {
					if yields++; !errors.Is(err, turnlog.ErrInvalid) {
						fail("%s: got error %v, want %v", what, err, turnlog.ErrInvalid)
					}
				}
				if yields != 1 {
					fail("%s: %d yields", what, yields)
				}
			}
			for _, before := range []time.Time{{}, time.UnixMilli(-1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
				if n, err := p.lister.Prune(p.ctx, before); !errors.Is(err, turnlog.ErrInvalid) || n != 0 {
					fail("Prune before %v: %d, %v", before, n, err)
				}
			}
			if len(p.restore("run")) != 2 {
				fail("%d entries", len(p.restore("run")))
			}
		},
	},
	{
		name: "lister-cancelled",
		rule: "with a ctx that is done every method returns its error and its cause, and changes nothing",
		check: func(p *probe) {
			p.record(entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1))
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, restored := p.log.Restore(ctx, "run")
			_, pruned := p.lister.Prune(ctx, at(5000))
			errs := []error{p.log.Record(ctx, entry("run", turnlog.ToolReceived, 2)), restored, pruned}
			for _, err := range p.lister.Turns(ctx, turnlog.Query{}) {
				errs = append(errs, err)
			}
			for i, err := range errs {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
					fail("method %d returns %v, want %v and its cause", i, err, context.Canceled)
				}
			}
			if len(errs) != 4 || len(p.restore("run")) != 2 {
				fail("%d errors, and %d entries", len(errs), len(p.restore("run")))
			}
		},
	},
	{
		name: "lister-cancelled-loop",
		rule: "a loop over Turns whose ctx ends gets its error",
		check: func(p *probe) {
			for _, run := range []string{"a", "b", "c"} {
				p.record(entry(run, turnlog.Started, 0))
			}
			ctx, cancel := context.WithTimeout(p.ctx, time.Hour)
			var last error
			for _, err := range p.lister.Turns(ctx, turnlog.Query{}) {
				cancel()
				last = err
			}
			cancel()
			want(last, context.Canceled)
		},
	},
	{
		name: "lister-aliased",
		rule: "Turns shares no memory with its callers",
		check: func(p *probe) {
			e := entry("run", turnlog.Started, 0)
			p.record(e)
			for _, s := range p.turns(turnlog.Query{}) {
				clear(s.First.State)
				clear(s.Last.State)
			}
			p.wantSummary("run", e, e)
			p.wantEntries("run", e)
		},
	},
}
