package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// A stay is the stay of a run in this process: from a claim, or its start, until the run is given back.
type stay struct {
	engine *Engine
	run    workflow.Run
	fence  lock.Fence
	def    *definition
	ctx    context.Context //nolint:containedctx // of the body
	cancel context.CancelCauseFunc
	since  time.Time

	// fresh says that the journal is empty: the run has begun here.
	fresh bool

	// status is how the stay has ended, for its span.
	status string

	branches sync.WaitGroup
	living   atomic.Int64 // goroutines of the body that do not wait for others
	over     atomic.Bool  // the run was given back

	mu      sync.Mutex // protects following fields
	journal map[string]workflow.Step
	last    map[string]int  // the greatest index of each branch in the journal
	entered map[string]bool // the verbs and branches that the body has called
	places  map[string]int  // how many verbs each branch has called
	mail    int64
	signals []workflow.Step
	taken   map[string]bool // the ids of signals that waits have taken here
	parked  []parking       // why branches cannot go on now
	rest    []workflow.Step // outcomes of branches that have ended
	drift   error
	gone    error     // why the run is not ours any more
	clock   time.Time // of the store, at the time read
	read    time.Time
}

func (e *Engine) newStay(c *workflow.Claimed, fresh bool) *stay {
	x := &stay{
		engine: e, run: c.Run, fence: c.Fence, mail: c.Mail, since: time.Now(), fresh: fresh, clock: c.Now,
		read: time.Now(), def: e.defs[workflow.Definition{Workflow: c.Workflow, Version: c.Version}],
		taken: make(map[string]bool),
	}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	return x
}

// left returns how long it is until the deadline of the run, at most; limited is false if it has none.
func (x *stay) left() (d time.Duration, limited bool) {
	if x.def.deadline == 0 {
		return 0, false
	}
	took := time.Since(x.since)                                   // if it was started here
	if now := x.now(); !now.IsZero() && !x.run.Started.IsZero() { // else the store's clock is not known
		took = now.Sub(x.run.Started)
	}
	return x.def.deadline - took, true
}

// watch ends the context of the run at its deadline, until stop is called.
func (x *stay) watch() (stop func() bool) {
	d, limited := x.left()
	switch {
	case !limited:
		return func() bool { return false }
	case d <= 0:
		x.cancel(ErrDeadline)
	}
	return time.AfterFunc(d, func() { x.cancel(ErrDeadline) }).Stop
}

// overdue reports whether the deadline has passed.
func (x *stay) overdue() bool { return errors.Is(context.Cause(x.ctx), ErrDeadline) }

func (x *stay) log() *slog.Logger {
	return x.engine.options.Logger.With("workflow", x.run.Workflow, "version", x.run.Version, "run", x.run.ID)
}

// now returns what the clock of the store says at least. So no deadline of the store passes early.
func (x *stay) now() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.clock.IsZero() {
		return time.Time{}
	}
	return x.clock.Add(time.Since(x.read))
}

// enter finds the journal row of a verb. It returns an error if the verb does not fit.
func (x *stay) enter(v *verb, branch string, kind workflow.Kind) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	v.row, v.known = x.journal[v.name]
	last, begun := x.last[branch]
	switch {
	case x.entered[v.name]:
		return fmt.Errorf("%w: step %q twice in one run", workflow.ErrInvalid, v.name)
	case v.known && (v.row.Kind != kind || v.row.Index != v.index):
		return &DriftError{Run: x.run.ID, Step: v.name, Kind: kind, Index: v.index, Stored: v.row}
	case !v.known && begun && last >= v.index:
		return &DriftError{Run: x.run.ID, Step: v.name, Kind: kind, Index: v.index, Stored: x.at(branch, v.index)}
	case len(x.entered) >= workflow.MaxSteps:
		return fmt.Errorf("%w: run has %d steps, which is the most", workflow.ErrInvalid, workflow.MaxSteps)
	}
	x.entered[v.name] = true
	x.places[branch] = v.index + 1
	return nil
}

// branch notes that a branch begins. It returns false if there is one of the name.
func (x *stay) branch(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.places[name]; ok {
		return false
	}
	x.places[name] = 0
	return true
}

// at returns the first row of a branch at index or later.
func (x *stay) at(branch string, index int) (at workflow.Step) {
	for name, row := range x.journal {
		if branchOf(name) == branch && row.Index >= index && (at.Name == "" || row.Index < at.Index) {
			at = row
		}
	}
	return at
}

func branchOf(name string) string { return name[:strings.LastIndexByte(name, '/')+1] }

// beyond reports whether the journal has a row of a branch at index or later.
func (x *stay) beyond(branch string, index int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	last, ok := x.last[branch]
	return ok && last >= index
}

func (x *stay) knows(name string) bool {
	_, known := x.row(name)
	return known
}

func (x *stay) row(name string) (row workflow.Step, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	row, known = x.journal[name]
	return row, known
}

// missed returns the drift of a body that has ended, although the journal has more.
func (x *stay) missed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for branch, last := range x.last {
		if n := x.places[branch]; last >= n {
			return &DriftError{Run: x.run.ID, Index: n, Stored: x.at(branch, n)}
		}
	}
	return nil
}

func (x *stay) alive() int64 { return x.living.Load() }

// keep keeps the outcomes of a branch that has ended.
func (x *stay) keep(steps []workflow.Step) {
	x.mu.Lock()
	x.rest = append(x.rest, steps...)
	x.mu.Unlock()
}

func (x *stay) takeRest() []workflow.Step {
	x.mu.Lock()
	defer x.mu.Unlock()
	steps := x.rest
	x.rest = nil
	return steps
}

// take takes the oldest signal for a wait, and returns how much mail it has looked at.
func (x *stay) take(v *verb, o *waitOptions) (s workflow.Step, taken bool, mail int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var before []string
	if v.known && o.strict {
		_ = json.Unmarshal(v.row.Output, &before) // see before
	}
	for _, s := range x.signals {
		if x.taken[s.Signal] || s.Name != o.event || !workflow.Contains(s.Output, o.match) ||
			o.strict && (!v.known || slices.Contains(before, s.Signal)) {
			continue
		}
		x.taken[s.Signal] = true
		return s, true, x.mail
	}
	return s, false, x.mail
}

// before returns the ids of the signals that have come before a strict wait, also of those that another wait has taken
// and the journal does not have yet. Until a signal ends the wait, they are the output of its row. It is nil if there
// are none.
func (x *stay) before(o *waitOptions) json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for _, s := range x.signals {
		if o.strict && s.Name == o.event {
			ids = append(ids, s.Signal)
		}
	}
	if ids == nil {
		return nil
	}
	doc, _ := json.Marshal(ids)
	return doc
}

// lost reports whether the run is not ours any more.
func (x *stay) lost() bool { return x.lostTo() != nil }

// lostTo returns why the run is not ours any more, or nil.
func (x *stay) lostTo() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone
}

// stops reports whether no branch goes on: the run is not ours any more, or another branch has drifted.
func (x *stay) stops() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone != nil || x.drift != nil
}

// lose notes that the run is not ours any more, and ends the context of its body.
func (x *stay) lose(err error) {
	x.mu.Lock()
	if x.gone == nil {
		x.gone = err
	}
	x.mu.Unlock()
	x.cancel(err)
}

// write writes an entry of the run until the store has answered. An error but ErrMail says that the run is lost.
func (x *stay) write(e workflow.Entry) error {
	e.Run, e.Fence = x.run.ID, x.fence
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := x.engine.writer.write(e)
		switch {
		case err == nil, errors.Is(err, workflow.ErrMail):
			return err
		case errors.Is(err, workflow.ErrOver), errors.Is(err, workflow.ErrNotFound), errors.Is(err, lock.ErrFenced):
			x.lose(err)
			return err
		case store.IsVerdict(err) && !errors.Is(err, workflow.ErrSchema): // tables may come back
			return x.refused(e, err)
		}
		if x.engine.abandons() {
			x.lose(err)
			return err
		}
		x.engine.fails(err)
		x.log().Warn("write failed, and is tried again", "err", logtext.Of(err))
		x.engine.pause(pause)
	}
}

// refused holds a run whose entry no store takes.
func (x *stay) refused(e workflow.Entry, err error) error {
	x.log().Error("run held: its entry was refused", "err", logtext.Of(err))
	if e.Next == workflow.Stop {
		x.lose(err)
		return err
	}
	_ = x.write(workflow.Entry{Next: workflow.Stop, Held: workflow.Drifted, Error: textOf(err), Mail: -1})
	x.lose(err)
	return err
}

// late notes outcomes that came after the run was lost. They are for people: no run rests on them.
func (x *stay) late(steps ...workflow.Step) {
	e := workflow.Entry{Run: x.run.ID, Next: workflow.Record, Mail: -1}
	for _, st := range steps {
		if st.Outcome == workflow.Done && st.Kind == workflow.KindStep {
			st.Outcome = workflow.Late
			e.Steps = append(e.Steps, st)
		}
	}
	if len(e.Steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	if _, err := x.engine.store.Write(ctx, []workflow.Entry{e}); err != nil {
		x.log().Warn("late outcomes not kept", "err", logtext.Of(err))
	}
}

// load reads the journal and the mailbox in one call. It returns false if the run cannot go on here.
func (x *stay) load() bool {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := x.readJournal()
		switch {
		case err == nil:
			return !x.lost()
		case x.lost():
			return false
		case x.overdue(): // what the journal has does not matter any more
			return true
		case store.IsVerdict(err) && !errors.Is(err, workflow.ErrSchema):
			x.log().Error("run held: its journal cannot be read", "err", logtext.Of(err))
			_ = x.write(workflow.Entry{Next: workflow.Stop, Held: workflow.Drifted, Error: textOf(err), Mail: -1})
			x.lose(err)
			return false
		case x.engine.abandons():
			x.lose(err)
			return false
		}
		x.log().Warn("journal not read, tried again", "err", logtext.Of(err))
		x.engine.pause(pause)
	}
}

func (x *stay) readJournal() error {
	ctx, cancel := context.WithTimeout(x.ctx, mostWait)
	defer cancel()
	journal, last := make(map[string]workflow.Step), make(map[string]int)
	var signals []workflow.Step
	var mail int64
	var newest time.Time
	for st, err := range x.engine.store.Steps(ctx, x.run.ID) {
		if err != nil {
			return err
		}
		if st.Signal != "" {
			mail++
		}
		switch {
		case st.Kind == workflow.KindSignal:
			signals = append(signals, st)
			continue
		case st.Outcome == workflow.Late: // it counts for nothing
			continue
		}
		journal[st.Name] = st
		branch := branchOf(st.Name)
		last[branch] = max(last[branch], st.Index)
		if st.Completed.After(newest) {
			newest = st.Completed
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.journal, x.last, x.signals, x.mail = journal, last, signals, mail
	if x.clock.IsZero() && !newest.IsZero() {
		x.clock, x.read = newest, time.Now()
	}
	return nil
}

// execute runs the body, and gives the run back or ends it.
func (x *stay) execute() {
	defer x.cancel(nil)
	defer x.over.Store(true)
	defer x.watch()()
	x.began()
	x.status = statusLost
	span := x.trace()
	defer func() { x.endTrace(span) }()
	for again := true; again; {
		if !x.fresh && !x.load() {
			return
		}
		x.fresh = false
		again = x.once()
	}
}

// An ending is how the body has ended.
type ending struct {
	out      json.RawMessage
	err      error
	returned bool // false after Goexit
}

func (x *stay) once() (again bool) {
	x.mu.Lock()
	x.parked, x.rest, x.drift = nil, nil, nil
	x.entered, x.places = make(map[string]bool), map[string]int{"": 0}
	clear(x.taken)
	x.mu.Unlock()
	r := &Run{stay: x}
	var end ending
	done := make(chan struct{})
	x.living.Store(1)
	go func() { // the body may end by Goexit
		defer close(done)
		defer x.living.Add(-1)
		defer func() {
			if err := r.end(); err != nil {
				end.err, end.returned = err, true
			}
		}()
		if x.overdue() { // it was given back until now
			r.exit()
		}
		err := guard(func() error {
			end.out, end.err = x.def.call(r, x.run.Input)
			return nil
		})
		if err != nil {
			end.err = err
		}
		end.returned = true
	}()
	<-done
	x.branches.Wait()
	if x.lost() {
		x.late(x.takeRest()...)
		if errors.Is(x.lostTo(), workflow.ErrOver) { // it was cancelled
			x.tellParent()
		}
		return false
	}
	e := x.entry(&end)
	return x.leave(&e)
}

// entry returns the last entry of the stay.
func (x *stay) entry(end *ending) workflow.Entry {
	x.mu.Lock()
	e := workflow.Entry{Steps: x.rest, Mail: -1}
	parked, drift := x.parked, x.drift
	x.mu.Unlock()
	overdue := x.overdue() && (!end.returned || end.err != nil)
	// If the process shuts down, and the body heeds its context, nothing has failed.
	if end.err != nil && x.ctx.Err() != nil {
		parked = append(parked, parking{after: soon})
	}
	if drift == nil && len(parked) == 0 && end.returned && !overdue {
		drift = x.missed()
	}
	switch {
	case overdue:
		x.log().Warn("run failed: it has taken longer than its deadline", "deadline", x.def.deadline)
		e.Next, e.Status, e.Error = workflow.End, workflow.Failed, ErrDeadline.Error()
	case drift != nil:
		x.log().Error("run held: its journal does not fit the code", "err", logtext.Of(drift))
		e.Next, e.Held, e.Error = workflow.Stop, workflow.Drifted, textOf(drift)
	case len(parked) > 0:
		e.Next = workflow.Park
		for i := range parked {
			parked[i].join(&e)
		}
		if d, limited := x.left(); limited && (e.After == 0 || d < e.After) {
			e.After = max(d, soon)
		}
	case end.err != nil:
		//nolint:errorlint // methods of the program's errors are not called here
		if p, ok := end.err.(*panicError); ok {
			x.log().Error("body panicked", "err", textOf(p), "stack", string(p.stack))
		}
		e.Next, e.Status, e.Error = workflow.End, workflow.Failed, textOf(end.err)
	case end.returned:
		e.Next, e.Status, e.Output = workflow.End, workflow.Completed, end.out
	default:
		e.Next, e.Status, e.Error = workflow.End, workflow.Failed, "the body has ended its goroutine"
	}
	return e
}

// join makes e wait for what the branch waits for, too.
func (p *parking) join(e *workflow.Entry) {
	after := p.after
	if !p.deadline.IsZero() {
		after = max(time.Until(p.deadline), soon)
	}
	if after > 0 && (e.After == 0 || after < e.After) {
		e.After = after
	}
	if !p.due.IsZero() && (e.Due.IsZero() || p.due.Before(e.Due)) {
		e.Due = p.due
	}
	switch {
	case p.event == "":
	case e.Event == "":
		e.Event, e.Match, e.Mail = p.event, p.match, p.mail
	default: // any signal wakes the run, and the body looks
		e.Event, e.Match, e.Mail = workflow.AnyEvent, nil, min(e.Mail, p.mail)
	}
}

// leave writes the last entry. It returns true if a signal has come, so that the body has to look again.
func (x *stay) leave(e *workflow.Entry) (again bool) {
	err := x.write(*e)
	if errors.Is(err, workflow.ErrMail) { // the outcomes are true all the same, and must not be lost
		if err = x.write(workflow.Entry{Steps: e.Steps, Mail: -1}); err == nil {
			return true
		}
	}
	if err != nil {
		x.late(e.Steps...)
		return false
	}
	switch e.Next {
	case workflow.End:
		x.status = string(e.Status)
	case workflow.Stop:
		x.status = statusHeld
	default:
		x.status = string(workflow.Running)
	}
	x.engine.left(x, e)
	if e.Next == workflow.End {
		x.tellParent()
	}
	return false
}
