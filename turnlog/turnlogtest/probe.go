package turnlogtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

// A probe is a log whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx    context.Context
	log    turnlog.Log
	lister turnlog.Lister // nil if the log is none
}

// phases are the phases that the clauses record, beside the canonical ones.
var phases = []string{
	"peer-call", "Peer-Call", "peer-call ", "naïve \"quotes\" \\ \n <&> 🙂", strings.Repeat("p", turnlog.MaxPhase),
	"%", "a/../b",
}

// at returns a time of the past, some milliseconds after a moment.
func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

// entry returns an entry that can be recorded.
func entry(run, phase string, ms int) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Turn: 3, Orchestrator: "bot", Session: "session", Phase: phase,
		State: json.RawMessage(fmt.Sprintf(`{"phase":"%s","at":%d}`, phase, ms)), At: at(ms),
	}
}

func (p *probe) record(all ...turnlog.Entry) {
	for _, e := range all {
		ok(p.log.Record(p.ctx, e))
	}
}

func (p *probe) restore(run string) []turnlog.Entry {
	all, err := p.log.Restore(p.ctx, run)
	ok(err)
	return all
}

// wantEntries checks that Restore returns these entries, in this order.
func (p *probe) wantEntries(run string, all ...turnlog.Entry) {
	got := p.restore(run)
	if len(got) != len(all) {
		fail("run %q has %d entries, want %d: %s", run, len(got), len(all), list(got))
	}
	for i := range got {
		if why := differ(got[i], all[i]); why != "" {
			fail("entry %d of run %q: %s", i, run, why)
		}
	}
}

// wantNothing checks that Restore returns no entry.
func (p *probe) wantNothing(run string) { p.wantEntries(run) }

func list(all []turnlog.Entry) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%.20q at %d; ", e.Phase, e.At.Sub(at(0)).Milliseconds())
	}
	return b.String()
}

// differ returns how an entry that was read differs from the entry that was recorded, or "". An adapter may leave out
// the turn and the orchestrator.
func differ(got, recorded turnlog.Entry) string {
	switch {
	case got.Run != recorded.Run:
		return fmt.Sprintf("run %q, want %q", got.Run, recorded.Run)
	case got.Session != recorded.Session:
		return fmt.Sprintf("session %q, want %q", got.Session, recorded.Session)
	case got.Phase != recorded.Phase:
		return fmt.Sprintf("phase %q, want %q", got.Phase, recorded.Phase)
	case !got.At.Equal(recorded.At) || got.At.Location() != time.UTC:
		return fmt.Sprintf("time %v, want %v in UTC", got.At, recorded.At)
	case !turnlog.Same(got.State, recorded.State):
		return fmt.Sprintf("state %.200s, want %.200s", got.State, recorded.State)
	case got.Turn != 0 && got.Turn != recorded.Turn:
		return fmt.Sprintf("turn %d, want %d", got.Turn, recorded.Turn)
	case got.Orchestrator != "" && got.Orchestrator != recorded.Orchestrator:
		return fmt.Sprintf("orchestrator %q, want %q", got.Orchestrator, recorded.Orchestrator)
	}
	return ""
}

var numbers atomic.Int64

// newRun returns the id of a run that no other call returns.
func newRun() string { return fmt.Sprintf("run-%d", numbers.Add(1)) }

// turns returns what a query selects.
func (p *probe) turns(q turnlog.Query) (all []turnlog.Summary) {
	for s, err := range p.lister.Turns(p.ctx, q) {
		ok(err)
		all = append(all, s)
	}
	return all
}

// runs returns the ids of the runs that a query selects.
func (p *probe) runs(q turnlog.Query) (all []string) {
	for _, s := range p.turns(q) {
		if s.First.Run != s.Last.Run {
			fail("a turn begins as run %q and ends as %q", s.First.Run, s.Last.Run)
		}
		all = append(all, s.First.Run)
	}
	return all
}

func (p *probe) prune(before time.Time) int {
	n, err := p.lister.Prune(p.ctx, before)
	ok(err)
	return n
}
