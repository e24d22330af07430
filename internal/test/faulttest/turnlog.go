package faulttest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/turnlog"
)

// TurnLogModel compares a turn log with turnlog.Memory by random histories. Phases of a few runs arrive in any order,
// twice, and with other states, and old turns are forgotten. It stops like [CheckpointModel].
func TurnLogModel(t *testing.T, newLog func(*testing.T) turnlog.Lister) {
	t.Helper()
	checkWithin(t, func(rt *rapid.T) {
		p := diaries{newLog(t), new(turnlog.Memory)}
		follow(rt, p.call, func(ctx context.Context) error { return p.sameTurns(ctx, turnlog.Query{}) })
	})
}

// diaries are a log and the reference log.
type diaries struct{ log, model turnlog.Lister }

// There are few of each, so that the calls of a history concern the same entries.
var (
	loggedCalls  = rapid.SampledFrom(strings.Fields("record record record record restore list list prune"))
	loggedRuns   = rapid.SampledFrom([]string{"r1", "r2", "r3", "😀"})
	loggedPhases = rapid.SampledFrom([]string{turnlog.Started, turnlog.Started, turnlog.ToolReceived, turnlog.Settled})
	loggedTimes  = rapid.IntRange(0, 5)
)

func loggedAt(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func (p diaries) call(ctx context.Context, t *rapid.T) error {
	run := loggedRuns.Draw(t, "run")
	at := loggedAt(loggedTimes.Draw(t, "at"))
	switch what := loggedCalls.Draw(t, "what"); what {
	case "record":
		e := turnlog.Entry{
			Run: run, Turn: rapid.IntRange(0, 3).Draw(t, "turn"), Orchestrator: "bot " + run, Session: "s",
			Phase: loggedPhases.Draw(t, "phase"), State: drawDocument(t), At: at,
		}
		return sameVerdict(what, p.log.Record(ctx, e), p.model.Record(ctx, e))
	case "restore":
		got, err := p.log.Restore(ctx, run)
		want, wantErr := p.model.Restore(ctx, run)
		return errors.Join(sameVerdict(what, err, wantErr), sameEntries(got, want))
	case "prune":
		got, err := p.log.Prune(ctx, at)
		want, wantErr := p.model.Prune(ctx, at)
		if got != want {
			return fmt.Errorf("%s forgets %d turns, want %d", what, got, want)
		}
		return sameVerdict(what, err, wantErr)
	}
	q := turnlog.Query{Open: rapid.Bool().Draw(t, "open"), Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
	switch rapid.IntRange(0, 3).Draw(t, "by") {
	case 0:
		q.Session = "s"
	case 1:
		q.Orchestrator = "bot " + run
	case 2:
		if q.After = at; rapid.Bool().Draw(t, "tie") {
			q.AfterRun = run
		}
	}
	return p.sameTurns(ctx, q)
}

func sameEntries(got, want []turnlog.Entry) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d entries, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if !turnlog.Same(g.State, w.State) {
			return fmt.Errorf("entry %d has the state %s, want %s", i, g.State, w.State)
		}
		g.State, w.State = nil, nil
		if fmt.Sprint(g) != fmt.Sprint(w) {
			return fmt.Errorf("entry %d is %+v, want %+v", i, g, w)
		}
	}
	return nil
}

func (p diaries) sameTurns(ctx context.Context, q turnlog.Query) error {
	list := func(l turnlog.Lister) (ends []turnlog.Entry, err error) {
		for s, err := range l.Turns(ctx, q) {
			if err != nil {
				return nil, err
			}
			ends = append(ends, s.First, s.Last)
		}
		return ends, nil
	}
	got, err := list(p.log)
	want, wantErr := list(p.model)
	if err := errors.Join(err, wantErr, sameEntries(got, want)); err != nil {
		return fmt.Errorf("%+v: %w", q, err)
	}
	return nil
}

// The entries of the one run of a history: by time and by phase.
const loggedTicks = 3

var tickPhases = [...]string{turnlog.Started, turnlog.Settled, turnlog.ToolReceived}

// A logState is the state of each entry; 0 if there is none. States are compared with ==.
type logState [loggedTicks][len(tickPhases)]int

// A logCall is the input of one operation of a history.
type logCall struct {
	op        string // record, restore, open or prune
	at, phase int
	state     int
}

// A logReply is the answer of a log.
type logReply struct {
	changed bool // record
	open    bool
	all     logState
}

// open reports whether the turn is known and has no Settled after its last Started.
func (s logState) open() bool {
	started, settled := -1, -1
	for at, entries := range s {
		if entries[0] > 0 {
			started = at
		}
		if entries[1] > 0 {
			settled = at
		}
	}
	return s != logState{} && (settled < 0 || settled <= started)
}

// step is the sequential specification of a turn log.
func (s logState) step(c logCall) (logReply, logState) {
	switch c.op {
	case "restore":
		return logReply{all: s}, s
	case "open":
		return logReply{open: s.open()}, s
	case "prune":
		if !s.open() {
			s = logState{}
		}
		return logReply{}, s
	}
	e := &s[c.at][c.phase]
	if *e == 0 {
		*e = c.state
	}
	return logReply{changed: *e != c.state}, s
}

// logSpec is the linearizable specification of a turn log.
var logSpec = sequential(logState.step)

// TurnLogHistories records n histories of five workers on a turn log. If no order of the calls explains the replies,
// the test fails and prints the seed and the calls of the first such history.
func TurnLogHistories(t *testing.T, newLog func(*testing.T) turnlog.Lister, n int) {
	t.Helper()
	l := newLog(t)
	record := func(ctx context.Context, seed uint64) []porcupine.Operation { return recordEntries(ctx, l, seed) }
	changed := func(_ logCall, out logReply) bool { return out.changed }
	legal(t, n, logSpec, record, changed, "no two states met")
}

// recordEntries lets five workers act at random on one run.
func recordEntries(ctx context.Context, l turnlog.Lister, seed uint64) []porcupine.Operation {
	run := "history " + crand.Text()
	return together(ctx, seed, drawLogCall, func(ctx context.Context, c logCall) (logReply, error) {
		return c.do(ctx, l, run)
	})
}

func drawLogCall(rng *hand[logReply]) logCall {
	switch dice := rng.IntN(100); {
	case dice < 20:
		return logCall{op: "restore"}
	case dice < 30:
		return logCall{op: "open"}
	case dice < 40:
		return logCall{op: "prune"}
	}
	return logCall{"record", rng.IntN(loggedTicks), rng.IntN(len(tickPhases)), 1 + rng.IntN(2)}
}

func (c logCall) do(ctx context.Context, l turnlog.Lister, run string) (out logReply, err error) {
	switch c.op {
	case "record":
		err = l.Record(ctx, turnlog.Entry{
			Run: run, Orchestrator: "bot", Session: run, Phase: tickPhases[c.phase], At: loggedAt(c.at),
			State: json.RawMessage(fmt.Sprint(c.state)),
		})
		if errors.Is(err, turnlog.ErrChanged) {
			out.changed, err = true, nil
		}
	case "restore":
		var all []turnlog.Entry
		all, err = l.Restore(ctx, run)
		for _, e := range all {
			at, phase := e.At.Sub(loggedAt(0)).Milliseconds(), slices.Index(tickPhases[:], e.Phase)
			out.all[at][phase] = int(e.State[0] - '0')
		}
	case "open":
		for s, failed := range l.Turns(ctx, turnlog.Query{Open: true, Session: run}) {
			out.open, err = s.First.Run == run, failed
		}
	case "prune":
		_, err = l.Prune(ctx, loggedAt(loggedTicks))
	}
	return out, err
}
