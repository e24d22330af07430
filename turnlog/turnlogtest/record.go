package turnlogtest

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

var recordClauses = []clause{
	{
		name: "record",
		rule: "an entry has run, session, phase, state and time, and Restore returns them as they were recorded",
		check: func(p *probe) {
			e := entry("run", turnlog.Started, 0)
			p.record(e)
			p.wantEntries("run", e)
		},
	},
	{
		name: "record-json",
		rule: "a restored entry is written as JSON with a time of fixed width, so that the texts sort as the times",
		check: func(p *probe) {
			for _, ms := range []int{0, 1, 10, 100, 1000, 86_400_000} {
				e := entry("run", turnlog.ToolReceived, ms)
				e.At = e.At.In(time.FixedZone("east", 7200))
				p.record(e)
			}
			last := ""
			for _, e := range p.restore("run") {
				doc, err := json.Marshal(e)
				ok(err)
				var stored struct {
					TurnID, SessionID, Phase, Timestamp string
					State                               json.RawMessage
				}
				ok(json.Unmarshal(doc, &stored))
				if stored.Timestamp <= last || len(stored.Timestamp) != len(turnlog.TimeFormat) ||
					stored.TurnID != "run" || stored.SessionID != "session" || stored.Phase != turnlog.ToolReceived {
					fail("%s after the time %q", doc, last)
				}
				last = stored.Timestamp
			}
			if last == "" {
				fail("nothing is restored")
			}
		},
	},
	{
		name: "repeat",
		rule: "the same entry twice is one entry, and both calls succeed",
		check: func(p *probe) {
			e := entry("run", turnlog.ToolReceived, 0)
			p.record(e, e, entry("run", turnlog.Settled, 1), e)
			p.wantEntries("run", e, entry("run", turnlog.Settled, 1))
		},
	},
	{
		name: "repeat-as-value",
		rule: "an entry whose state is the same JSON value, written in another way, is the same entry",
		check: func(p *probe) {
			e := entry("run", turnlog.ToolReceived, 0)
			e.State = json.RawMessage(`{"a":1,"b":{"c":"é","d":[1.50,true]}}`)
			p.record(e)
			again := e
			again.State = json.RawMessage(" { \"b\" : {\"d\": [15e-1, true], \"c\":\"\\u00e9\"}, \"a\" : 1.0 } ")
			p.record(again)
			p.wantEntries("run", e)
			none := entry("run", turnlog.Settled, 1)
			none.State = nil
			p.record(none)
			none.State = json.RawMessage("null")
			p.record(none)
			p.wantEntries("run", e, none)
		},
	},
	{
		name: "changed",
		rule: "the same run, phase and time with another state is ErrChanged, and the first state stays",
		check: func(p *probe) {
			e := entry("run", turnlog.ToolReceived, 0)
			p.record(e)
			for _, state := range []string{`{}`, `null`, `{"phase":"tool-received","at":0.5}`, string(large(1000))} {
				other := e
				other.State = json.RawMessage(state)
				want(p.log.Record(p.ctx, other), turnlog.ErrChanged)
			}
			p.record(e)
			p.wantEntries("run", e)
		},
	},
	{
		name: "another-time",
		rule: "the same run and phase at another time is another entry, also with the same state",
		check: func(p *probe) {
			var all []turnlog.Entry
			for i := range 5 {
				e := entry("run", turnlog.ToolReceived, i)
				e.State = json.RawMessage(`{"result":1}`)
				all = append(all, e)
			}
			p.record(all...)
			p.record(all...)
			p.wantEntries("run", all...)
		},
	},
	{
		name: "another-phase",
		rule: "another phase of the same run at the same time is another entry",
		check: func(p *probe) {
			p.record(entry("run", "peer-call", 0), entry("run", "Peer-Call", 0), entry("run", "peer-call ", 0))
			if got := p.restore("run"); len(got) != 3 {
				fail("%d entries, want 3: %s", len(got), list(got))
			}
		},
	},
	{
		name: "another-run",
		rule: "the same phase and time of another run is another entry, also in one session",
		check: func(p *probe) {
			names := []string{
				"run", "run1", "RUN", "run ", "r_n", "r%n", "run/1", "ru", "../run", "rün", "run?a=b&c", "run#1",
			}
			entries := func(run string) []turnlog.Entry {
				e := entry(run, turnlog.Started, 0)
				e.State = json.RawMessage(strconv.Itoa(slices.Index(names, run)))
				return []turnlog.Entry{e, entry(run, turnlog.Settled, 1)}
			}
			for _, run := range names {
				p.record(entries(run)...)
			}
			more := entry("ru", turnlog.ToolReceived, 2)
			p.record(more)
			for _, run := range names {
				all := entries(run)
				if run == "ru" {
					all = append(all, more)
				}
				p.wantEntries(run, all...)
			}
		},
	},
	{
		name: "after-settled",
		rule: "an entry may come after Settled, and another Settled too",
		check: func(p *probe) {
			all := []turnlog.Entry{
				entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1),
				entry("run", turnlog.ToolReceived, 2), entry("run", turnlog.Settled, 3),
			}
			p.record(all...)
			p.wantEntries("run", all...)
			if got := turnlog.Judge(p.restore("run")); got != turnlog.Outbound {
				fail("the recovery is %q, want %q", got, turnlog.Outbound)
			}
		},
	},
	{
		name: "registry",
		rule: "behind turnlog.New a phase that is not registered is ErrPhase, and nothing is stored",
		check: func(p *probe) {
			r := turnlog.NewRegistry()
			checked := turnlog.New(p.log, r)
			e := entry("run", "peer-call", 0)
			want(checked.Record(p.ctx, e), turnlog.ErrPhase)
			p.wantNothing("run")
			ok(r.Register("peer-call", "a call of a peer"))
			ok(checked.Record(p.ctx, e))
			p.wantEntries("run", e)
		},
	},
}

var restoreClauses = []clause{
	{
		name: "restore-unknown",
		rule: "of a run that is not known Restore returns nothing, and no error",
		check: func(p *probe) {
			p.wantNothing("unknown")
			p.record(entry("run", turnlog.Started, 0))
			p.wantNothing("unknown")
		},
	},
	{
		name: "restore-order",
		rule: "Restore returns all entries, oldest first, in whatever order they were recorded",
		check: func(p *probe) {
			all := []turnlog.Entry{entry("run", turnlog.Started, 0)}
			for i := 1; i < 19; i++ {
				all = append(all, entry("run", turnlog.ToolReceived, i*i*i)) // digits of 1 to 4 places
			}
			all = append(all, entry("run", turnlog.Settled, 10_000))
			for _, i := range []int{7, 19, 0, 12, 3, 18, 1, 9, 15, 4, 11, 2, 16, 6, 14, 8, 17, 5, 13, 10} {
				p.record(all[i])
			}
			p.wantEntries("run", all...)
		},
	},
	{
		name: "restore-close",
		rule: "entries that are a millisecond apart keep their order",
		check: func(p *probe) {
			var all []turnlog.Entry
			for i := range 50 {
				all = append(all, entry("run", []string{turnlog.ToolReceived, turnlog.LLMComplete}[i%2], 990+i))
			}
			backwards := slices.Clone(all)
			slices.Reverse(backwards)
			p.record(backwards...)
			p.wantEntries("run", all...)
		},
	},
	{
		name: "restore-many",
		rule: "Restore returns each of many entries once",
		check: func(p *probe) {
			var all []turnlog.Entry
			for i := range 250 {
				all = append(all, entry("run", turnlog.ToolReceived, i))
			}
			p.record(all...)
			p.wantEntries("run", all...)
		},
	},
}
