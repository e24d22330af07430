package faulttest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// LedgerModel compares a ledger with ledger.Memory by random histories. Owners issue effects, finish them, take over
// and come back late, and people answer. It stops like [CheckpointModel].
func LedgerModel(t *testing.T, newLedger func(*testing.T) ledger.Ledger) {
	t.Helper()
	l := newLedger(t)
	checkWithin(t, func(rt *rapid.T) {
		p := books{l, new(ledger.Memory), "model " + crand.Text()}
		follow(rt, p.call, func(ctx context.Context) error {
			return p.sameEffects(ctx, ledger.Query{Orchestrator: p.bot})
		})
	})
}

// books are a ledger and the reference ledger.
type books struct {
	ledger, model ledger.Ledger
	bot           string
}

// There are few of each, so that the calls of a history concern the same things.
var (
	effectRuns   = rapid.SampledFrom([]string{"r1", "r2"})
	effectNames  = rapid.SampledFrom([]string{"a", "b", "😀"})
	effectFences = rapid.SampledFrom([]lock.Fence{
		{Epoch: 1, Nonce: "n"}, {Epoch: 2, Nonce: "n"}, {Epoch: 2, Nonce: "m"}, {Epoch: 3, Nonce: "n"},
	})
	effectCalls = rapid.SampledFrom(strings.Fields(
		"adopt issue issue again again finish finish finish answer record list"))
	effectSums   = rapid.SampledFrom([]string{"k:1", "k:1", "k:1", "k:2", "l:1"})
	effectStates = rapid.SampledFrom([]ledger.State{
		ledger.Completed, ledger.Completed, ledger.Failed, ledger.Unknown, ledger.Skipped,
	})
)

func (p books) effect(t *rapid.T) ledger.Effect {
	run, name := effectRuns.Draw(t, "run"), effectNames.Draw(t, "name")
	return ledger.Effect{
		ID: p.bot + name, Orchestrator: p.bot, Session: "session of " + run, RunID: p.bot + run, Intent: "pay",
		Name: name, Key: "key", Class: ledger.Class(rapid.IntRange(0, 3).Draw(t, "class")),
		Fence: effectFences.Draw(t, "fence"), ArgsSum: effectSums.Draw(t, "sum"), Args: drawDocument(t),
		Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"),
		State:    rapid.SampledFrom([]ledger.State{"", ledger.Unknown, ledger.Failed}).Draw(t, "known state"),
	}
}

func (p books) call(ctx context.Context, t *rapid.T) error {
	e := p.effect(t)
	what := effectCalls.Draw(t, "what")
	switch what {
	case "adopt":
		return sameVerdict(what, p.ledger.Adopt(ctx, e.RunID, e.Fence), p.model.Adopt(ctx, e.RunID, e.Fence))
	case "issue", "again":
		got, gotIssued, err := p.ledger.Issue(ctx, e, what == "again")
		want, wantIssued, wantErr := p.model.Issue(ctx, e, what == "again")
		if gotIssued != wantIssued {
			return fmt.Errorf("%s: issued is %t, want %t: %+v", what, gotIssued, wantIssued, want)
		}
		return errors.Join(sameVerdict(what, err, wantErr), sameEffect(got, want))
	case "finish", "answer":
		o := ledger.Outcome{State: effectStates.Draw(t, "state"), Redacted: rapid.Bool().Draw(t, "redacted")}
		if o.State == ledger.Completed {
			o.Result = drawDocument(t)
		}
		if what == "answer" {
			o.By, o.Sure = "Ann", rapid.Bool().Draw(t, "sure")
		}
		attempt := max(1, e.Attempts)
		got, err := p.ledger.Finish(ctx, e.ID, attempt, o)
		want, wantErr := p.model.Finish(ctx, e.ID, attempt, o)
		return errors.Join(sameVerdict(what, err, wantErr), sameEffect(got, want))
	case "record":
		e.Class, e.Result = ledger.Pure, drawDocument(t)
		got, err := p.ledger.Record(ctx, e)
		want, wantErr := p.model.Record(ctx, e)
		return errors.Join(sameVerdict(what, err, wantErr), sameEffect(got, want))
	}
	q := ledger.Query{Orchestrator: p.bot, Open: rapid.Bool().Draw(t, "open"), Brief: rapid.Bool().Draw(t, "brief")}
	q.AnsweredWithin = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "answered within")
	switch rapid.IntRange(0, 3).Draw(t, "by") {
	case 0:
		q.ID = e.ID
	case 1:
		q.RunID = e.RunID
	case 2:
		q.Session = e.Session
	}
	return p.sameEffects(ctx, q)
}

// sameVerdict compares two errors of ledgers.
func sameVerdict(what string, got, want error) error {
	if (got == nil) != (want == nil) || want != nil && !errors.Is(got, want) {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// sameEffect compares two effects, except for their times.
func sameEffect(got, want ledger.Effect) error {
	a, b := timeless(got), timeless(want)
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) || !sameJSON(got.Args, want.Args) ||
		!sameJSON(got.Result, want.Result) || got.FinishedAt.IsZero() != want.FinishedAt.IsZero() ||
		got.AnsweredAt.IsZero() != want.AnsweredAt.IsZero() {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	return nil
}

func timeless(e ledger.Effect) ledger.Effect {
	e.Args, e.Result, e.IssuedAt, e.FinishedAt, e.AnsweredAt = nil, nil, time.Time{}, time.Time{}, time.Time{}
	e.Age = 0
	return e
}

func (p books) sameEffects(ctx context.Context, q ledger.Query) error {
	list := func(l ledger.Ledger) (all []ledger.Effect, err error) {
		for e, err := range l.Effects(ctx, q) {
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, nil
	}
	got, err := list(p.ledger)
	want, wantErr := list(p.model)
	if err != nil || wantErr != nil || len(got) != len(want) {
		return fmt.Errorf("%+v lists %d effects and %v, want %d and %v", q, len(got), err, len(want), wantErr)
	}
	for i := range got {
		if err := sameEffect(got[i], want[i]); err != nil {
			return fmt.Errorf("%+v: %w", q, err)
		}
	}
	return nil
}

// An effectCall is the input of one operation of a history of effects. There is one effect, with a Key, and two runs.
type effectCall struct {
	op      string       // adopt, issue, finish or answer
	run     int          // adopt, issue
	epoch   int          // adopt, issue
	follows int          // issue: the attempt that it follows; finish, answer: the attempt
	state   ledger.State // issue: what the caller knows of the attempts so far
	result  string
}

// An effectReply is the answer of a ledger.
type effectReply struct {
	verdict string // of the error
	issued  bool
	now     effectState
}

// An effectState is the effect as it stands.
type effectState struct {
	state    ledger.State // "": not known
	attempts int
	run      int
	result   string
	unsure   bool
}

// A ledgerState is the state of the effect and of the fences. States are compared with ==.
type ledgerState struct {
	effect effectState
	fences [2]int // by run
}

// adopt makes an epoch the fence of a run. It returns false if the run has a higher one.
func (s *ledgerState) adopt(run, epoch int) bool {
	switch {
	case s.fences[run] > epoch:
		return false
	case s.fences[run] < epoch && s.effect.state == ledger.Issued && s.effect.run == run:
		s.effect.state = ledger.Unknown
	}
	s.fences[run] = epoch
	return true
}

// step is the sequential specification of a ledger.
func (s ledgerState) step(c effectCall) (effectReply, ledgerState) {
	e := &s.effect
	switch c.op {
	case "adopt", "issue":
		if !s.adopt(c.run, c.epoch) {
			return effectReply{verdict: "fenced"}, s
		}
		if c.op == "adopt" {
			return effectReply{}, s
		}
		ours := e.state == ledger.Issued && e.run == c.run
		issued := e.state == "" || ours && e.attempts == c.follows+1
		if e.state == "" || c.follows > 0 && e.attempts == c.follows &&
			(ours || e.state == ledger.Unknown || e.state == ledger.Failed) {
			unsure := e.state.Open() && c.state != ledger.Failed
			*e = effectState{ledger.Issued, e.attempts + 1, c.run, e.result, unsure}
			issued = true
		}
		return effectReply{issued: issued, now: *e}, s
	}
	last := e.attempts == c.follows && e.state.Open()
	switch {
	case e.state == "":
		return effectReply{verdict: "not found"}, s
	case c.op == "answer" && !last:
		return effectReply{verdict: "answered", now: *e}, s
	case c.op == "answer" && e.state == ledger.Issued:
		return effectReply{verdict: "held", now: *e}, s
	case c.state == ledger.Completed && e.state != ledger.Completed, c.state != ledger.Completed && last:
		e.state, e.result = c.state, c.result
		if c.op == "finish" && c.state == ledger.Failed && e.unsure {
			e.state = ledger.Unknown
		}
		e.unsure = e.unsure && e.state.Open()
	}
	return effectReply{now: *e}, s
}

// effectSpec is the linearizable specification of a ledger. An Issue may begin with an adoption, which others may see
// before the effect is issued.
var effectSpec = func() porcupine.Model {
	m := sequential(ledgerState.step)
	m.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		for _, op := range history {
			if op.Input.(effectCall).op == "issue" {
				history = append(history, adoption(op))
			}
		}
		return [][]porcupine.Operation{history}
	}
	return m
}()

// adoption returns the adoption that an Issue may begin with.
func adoption(op porcupine.Operation) porcupine.Operation {
	c := op.Input.(effectCall)
	op.ClientId, op.Input = op.ClientId+workers, effectCall{op: "adopt", run: c.run, epoch: c.epoch}
	if out, ok := op.Output.(effectReply); ok {
		if op.Output = (effectReply{}); out.verdict != "" { // perhaps a later owner came in between
			op.Output, op.Return = nil, math.MaxInt64
		}
	}
	return op
}

// LedgerHistories records n histories of five workers on a ledger. If no order of the calls explains the replies, the
// test fails and prints the seed and the calls of the first such history.
func LedgerHistories(t *testing.T, newLedger func(*testing.T) ledger.Ledger, n int) {
	t.Helper()
	l := newLedger(t)
	record := func(ctx context.Context, seed uint64) []porcupine.Operation { return recordEffects(ctx, l, seed) }
	paid := func(_ effectCall, out effectReply) bool { return out.now.state == ledger.Completed }
	legal(t, n, effectSpec, record, paid, "no effect was completed")
}

// recordEffects lets five workers act at random on one effect.
func recordEffects(ctx context.Context, l ledger.Ledger, seed uint64) []porcupine.Operation {
	bot := "history " + crand.Text()
	return together(ctx, seed, drawEffectCall, func(ctx context.Context, c effectCall) (effectReply, error) {
		return c.do(ctx, l, bot)
	})
}

func drawEffectCall(rng *hand[effectReply]) effectCall {
	seen := 0 // attempts, as far as this worker knows
	for _, r := range rng.replies {
		seen = max(seen, r.now.attempts)
	}
	c := effectCall{run: rng.IntN(2), epoch: 1 + rng.IntN(3), follows: seen}
	switch dice := rng.IntN(100); {
	case dice < 15:
		c.op, c.follows = "adopt", 0
	case dice < 65:
		c.op = "issue"
		switch rng.IntN(6) {
		case 0, 1:
			c.follows = 0
		case 2:
			c.state = ledger.Failed
		}
	default:
		c.op, c.run, c.epoch, c.follows = "finish", 0, 0, max(1, seen-rng.IntN(2))
		c.state = []ledger.State{
			ledger.Completed, ledger.Failed, ledger.Failed, ledger.Unknown, ledger.Unknown, ledger.Unknown,
		}[rng.IntN(6)]
		if rng.IntN(4) == 0 {
			c.op = "answer"
		}
		if c.state == ledger.Completed {
			c.result = rng.name
		}
	}
	return c
}

func (c effectCall) do(ctx context.Context, l ledger.Ledger, bot string) (out effectReply, err error) {
	var now ledger.Effect
	run := fmt.Sprint(bot, " run ", c.run)
	fence := lock.Fence{Epoch: int64(c.epoch), Nonce: fmt.Sprint("n", c.epoch)}
	switch c.op {
	case "adopt":
		err = l.Adopt(ctx, run, fence)
	case "issue":
		now, out.issued, err = l.Issue(ctx, ledger.Effect{
			ID: bot, Orchestrator: bot, Session: run, RunID: run, Name: "pay", Key: "key", Fence: fence,
			Attempts: c.follows, State: c.state,
		}, c.follows > 0)
	default:
		o := ledger.Outcome{State: c.state}
		if c.state == ledger.Completed {
			o.Result = json.RawMessage(`"` + c.result + `"`)
		}
		if c.op == "answer" {
			o.By = "Ann"
		}
		now, err = l.Finish(ctx, bot, c.follows, o)
	}
	for _, v := range []struct {
		err  error
		name string
	}{
		{nil, ""},
		{lock.ErrFenced, "fenced"},
		{lock.ErrHeld, "held"},
		{ledger.ErrAnswered, "answered"},
		{ledger.ErrNotFound, "not found"},
	} {
		if errors.Is(err, v.err) {
			out.verdict = v.name
			out.now = stateOf(now)
			return out, nil
		}
	}
	return out, err
}

// stateOf returns what a history compares of an effect.
func stateOf(e ledger.Effect) effectState {
	if e.ID == "" {
		return effectState{}
	}
	s := effectState{
		state: e.State, attempts: e.Attempts, result: strings.Trim(string(e.Result), `"`), unsure: e.Unsure,
	}
	s.run = int(e.RunID[len(e.RunID)-1] - '0')
	return s
}
