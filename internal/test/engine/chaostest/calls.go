package chaostest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A call is a call by a client or an operator, and its answer. Times are steps.
type call struct {
	n       int
	kind    string // method of Orchestrator
	at      *process
	session string
	input   *input // of Execute
	run     string // for Abandon or SkipDelivery
	force   bool

	begun, over int // over 0: not over
	took        time.Duration
	died        bool // its process died first
	// disturbed: a message of the call was lost or late, or its client went away.
	disturbed bool
	got       answer

	grants []grant
	cancel context.CancelCauseFunc
	start  time.Time
}

// An answer is the result of a call.
type answer struct {
	res  *result
	yes  bool   // of Abandon and SkipDelivery
	what string // of Recover
	err  error
}

func (c *call) number() int {
	if c == nil {
		return 0
	}
	return c.n
}

func (c *call) disturb() {
	if c != nil {
		c.disturbed = true
	}
}

// overlaps reports whether two calls were under way at the same time.
func (c *call) overlaps(d *call) bool { return c.begun <= d.over && d.begun <= c.over }

// An input is an input that a client sends, perhaps several times.
type input struct {
	orchestrator.Input
	sent []*call
}

// call begins a random call.
func (w *simulation) call() {
	r, p := w.anyRoom(), w.anyProcess()
	c := &call{at: p, session: r.session}
	dice := w.rng.IntN(100)
	switch {
	case dice < 55:
		w.execute(c, r.input(w))
	case dice < 62:
		c.kind, c.force = "Resume", w.chance(200)
		w.begin(c, func(ctx context.Context) (a answer) {
			a.res, a.err = p.bot.Resume(ctx, c.session, &orchestrator.CallOptions{Force: c.force})
			return a
		})
	case dice < 70:
		c.kind = "Recover"
		w.begin(c, func(ctx context.Context) (a answer) {
			a.what, a.err = p.bot.Recover(ctx, c.session)
			return a
		})
	case dice < 90:
		c.kind, c.run = "Abandon", w.runOf(r)
		w.begin(c, func(ctx context.Context) (a answer) {
			a.yes, a.err = p.bot.Abandon(ctx, c.session, c.run)
			return a
		})
	case dice < 96:
		c.kind = "Delete"
		w.begin(c, func(ctx context.Context) answer {
			return answer{what: "deleted", err: p.bot.Delete(ctx, c.session)}
		})
	default:
		w.skipDelivery(c, r)
	}
}

func (w *simulation) skipDelivery(c *call, r *room) {
	if !w.plan.delivers || len(r.runs) == 0 {
		return
	}
	c.kind, c.run = "SkipDelivery", r.runs[w.rng.IntN(len(r.runs))]
	w.begin(c, func(ctx context.Context) (a answer) {
		a.yes, a.err = c.at.bot.SkipDelivery(ctx, c.session, c.run)
		return a
	})
}

func (w *simulation) execute(c *call, in *input) {
	c.kind, c.input, c.force = "Execute", in, w.chance(30)
	in.sent = append(in.sent, c)
	w.begin(c, func(ctx context.Context) (a answer) {
		a.res, a.err = c.at.bot.Execute(ctx, c.session, in.Input, &orchestrator.CallOptions{Force: c.force})
		return a
	})
	for _, d := range in.sent { // a call that joins another is told what the other is told
		if in.RequestID != "" && d.at == c.at && d.session == c.session && d.force == c.force && d.over == 0 {
			c.begun = min(c.begun, d.begun)
		}
	}
}

// begin begins a call.
func (w *simulation) begin(c *call, ask func(context.Context) answer) {
	w.tally.Calls++
	w.calls = append(w.calls, c)
	c.n, c.begun, c.start = len(w.calls), w.step, time.Now()
	w.note("call %v", c)
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.WithValue(context.Background(), callKey{}, c))
	w.mu.Lock()
	w.working++
	w.mu.Unlock()
	go func() {
		got := ask(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.working--
		c.got = got
		w.ended = append(w.ended, c)
	}()
}

// notice notes the answer to a call. The callers of a dead process get no answer.
func (w *simulation) notice(c *call) {
	c.cancel(nil)
	if c.died {
		c.got = answer{}
		return
	}
	c.over, c.took = w.step, time.Since(c.start)
	w.note("%v is told %v", c, c.got)
	if c.session != "" {
		w.room(c.session).learn(c)
	}
}

// leave ends the context of a call.
func (w *simulation) leave() {
	all := w.active()
	if len(all) == 0 {
		return
	}
	c := all[w.rng.IntN(len(all))]
	w.note("the client of %v goes away", c)
	c.disturb()
	c.cancel(errGone)
}

// input returns a new input, or one that was sent before.
func (r *room) input(w *simulation) *input {
	dice := w.rng.IntN(100)
	if dice < 45 && len(r.inputs) > 0 {
		newest := len(r.inputs) - 1
		in := r.inputs[max(0, newest-min(w.rng.IntN(8), w.rng.IntN(8)))]
		if in.RequestID != "" { // otherwise a repeat is new
			return in
		}
	}
	n := len(r.inputs)
	in := &input{Input: orchestrator.Input{
		Text: fmt.Sprintf("%c%d", []byte{short, short, long, wide}[w.rng.IntN(4)], n), RequestID: fmt.Sprint("q", n),
	}}
	switch {
	case dice >= 85:
		in.RequestID = ""
	case dice >= 82 && n > 0:
		in.RequestID = r.inputs[w.rng.IntN(n)].RequestID
	}
	r.inputs = append(r.inputs, in)
	return in
}

// learn remembers the runs that a caller has heard of.
func (r *room) learn(c *call) {
	var ids []string
	if e, ok := errors.AsType[*orchestrator.Error](c.got.err); ok {
		ids = append(ids, e.RunID)
	}
	for res := c.got.res; res != nil; res = res.Resumed {
		ids = append(ids, res.RunID)
	}
	for _, id := range ids {
		if id != "" && !slices.Contains(r.runs, id) {
			r.runs = append(r.runs, id)
			r.heard[id] = c.over
		}
	}
}

// runOf returns the run in flight, as an operator finds it in a list; a run that a caller has heard of; or any run.
func (w *simulation) runOf(r *room) string {
	dice := w.rng.IntN(100)
	if dice < 70 {
		q := snapshot.Query{Key: w.key(r.session)}
		for run, err := range w.Snapshots.Runs(context.Background(), q) {
			if err == nil {
				return run.ID
			}
		}
	}
	if dice < 90 && len(r.runs) > 0 {
		return r.runs[w.rng.IntN(len(r.runs))]
	}
	return ""
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.res == nil:
		return cmp.Or(a.what, fmt.Sprint(a.yes))
	}
	text := fmt.Sprintf("turn %d of %q with %d notes", a.res.Turn, a.res.Input.Text, len(a.res.State.Notes))
	if a.res.Replayed {
		text += ", again"
	}
	if a.res.Resumed != nil {
		text += ", after " + answer{res: a.res.Resumed}.String()
	}
	if a.res.ResumeErr != nil {
		text += ", after the failure of another: " + a.res.ResumeErr.Error()
	}
	return text
}

func (c *call) String() string {
	text := fmt.Sprintf("#%d %s(%s", c.n, c.kind, c.session)
	if c.input != nil {
		text += fmt.Sprintf(", %q %s", c.input.Text, c.input.RequestID)
	}
	if c.force {
		text += ", Force"
	}
	return text + fmt.Sprintf(") at process %d", c.at.number)
}
