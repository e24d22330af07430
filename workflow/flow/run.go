package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// A Run is the handle that a body gets. The body calls the verbs with it. A Run is for the goroutine that got it. If a
// verb is called beside another one, in a goroutine of the body's own, it returns an error that names Go.
type Run struct {
	stay   *stay
	branch string       // "", or the name of the branch with a slash behind it
	index  atomic.Int64 // of the next verb
	busy   atomic.Bool
	ended  atomic.Bool // the body has ended, or the run was given back: there are no more verbs

	// held are outcomes that are not durable yet. They are written before the next step begins, or along with the end,
	// the sleep or the wait that comes next.
	held []workflow.Step
}

// ID returns the id of the run.
func (r *Run) ID() string { return r.stay.run.ID }

// Context returns the context of the run. It ends when the run is cancelled, or lost to another process, or given back
// because this process shuts down. It is for what a body does between steps; a step gets a context of its own.
func (r *Run) Context() context.Context { return r.stay.ctx }

// Log returns a logger with the run's attributes. It is silent while the body repeats what is in the journal.
func (r *Run) Log() *slog.Logger {
	log := slog.New(&quietly{r.stay.engine.options.Logger.Handler(), r})
	return log.With("workflow", r.stay.run.Workflow, "version", r.stay.run.Version, "run", r.stay.run.ID)
}

// A quietly is a handler that is silent while the body repeats what is in the journal.
type quietly struct {
	slog.Handler
	run *Run
}

// Enabled implements slog.Handler.
func (h *quietly) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.run.stay.beyond(h.run.branch, int(h.run.index.Load())) && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h *quietly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quietly{h.Handler.WithAttrs(attrs), h.run}
}

// WithGroup implements slog.Handler.
func (h *quietly) WithGroup(name string) slog.Handler {
	return &quietly{h.Handler.WithGroup(name), h.run}
}

// A verb is a call of the body, with its journal row if there is one.
type verb struct {
	name  string // with the names of its branches
	index int
	row   workflow.Step
	known bool
}

// enter begins a verb. It finds the journal row, and refuses what does not fit. If the run cannot go on here, the body
// ends.
func (r *Run) enter(name string, kind workflow.Kind) (v verb, err error) {
	x := r.stay
	if err := r.begin("step", name); err != nil {
		return v, err
	}
	defer func() {
		if err != nil {
			r.leave()
		}
	}()
	v.name, v.index = r.branch+name, int(r.index.Load())
	if err := workflow.ValidateStepName(v.name); err != nil {
		return v, err
	}
	if strings.Contains(name, "/") {
		return v, fmt.Errorf("%w: step %q: a slash is for the names of branches", workflow.ErrInvalid, name)
	}
	if err := x.enter(&v, r.branch, kind); err != nil {
		if drift, ok := errors.AsType[*DriftError](err); ok {
			r.drifted(drift)
		}
		return v, err
	}
	r.index.Add(1)
	if x.stops() || x.overdue() {
		r.exit()
	}
	if !v.known && x.engine.closing() {
		r.park(workflow.Step{}, parking{after: soon})
	}
	return v, nil
}

// begin begins a call that no other one of this Run may run beside.
func (r *Run) begin(what, name string) error {
	switch {
	case r.ended.Load() || r.stay.over.Load():
		return errOutside
	case !r.busy.CompareAndSwap(false, true):
		return beside(what, name)
	}
	return nil
}

func (r *Run) leave() {
	if !r.ended.Load() {
		r.busy.Store(false)
	}
}

// end notes that the body has ended: there are no more verbs. It returns an error if one is running.
func (r *Run) end() error {
	switch {
	case r.ended.Load():
		return nil
	case !r.busy.CompareAndSwap(false, true):
		return errLeft
	}
	r.finish()
	return nil
}

func (r *Run) finish() {
	r.ended.Store(true)
	r.stay.keep(r.held)
	r.held = nil
}

// exit ends the goroutine of the body. Its deferred functions run.
func (r *Run) exit() {
	r.busy.Store(true)
	r.finish()
	runtime.Goexit()
}

// soon is After for a run that is due at once.
const soon = time.Nanosecond

// A parking says why a branch cannot go on now.
type parking struct {
	due      time.Time     // by the store's clock
	after    time.Duration // after the write
	deadline time.Time     // by the clock of this process: in place of after, if the row is written already
	event    string
	match    json.RawMessage
	mail     int64
}

// park ends the goroutine of the body until p. If st has a name, it is the row that begins the sleep or the wait. The
// store stamps its deadline, so it is written at once if other branches go on.
func (r *Run) park(st workflow.Step, p parking) {
	x := r.stay
	if st.Name != "" {
		r.hold(st)
	}
	if x.alive() > 1 && len(r.held) > 0 {
		r.flush()
		if p.after > 0 {
			p.deadline, p.after = time.Now().Add(p.after), 0
		}
	}
	x.mu.Lock()
	x.parked = append(x.parked, p)
	x.mu.Unlock()
	r.exit()
}

// hold keeps a row for the next write.
func (r *Run) hold(st workflow.Step) {
	r.held = append(r.held, st)
	r.stay.notes(&st)
}

// drifted ends the body, and holds the run.
func (r *Run) drifted(err error) {
	x := r.stay
	x.mu.Lock()
	if x.drift == nil {
		x.drift = err
	}
	x.mu.Unlock()
	r.exit()
}

// flush makes the outcomes durable that this branch holds, and those of branches that have ended.
func (r *Run) flush() {
	if r.held = append(r.stay.takeRest(), r.held...); len(r.held) == 0 {
		return
	}
	r.write(workflow.Entry{Steps: r.held, Mail: -1}) //nolint:errcheck // without Mail it does not return one
	r.held = nil
}

// write writes an entry of a run that stays. If the run is not ours any more, the body ends here.
func (r *Run) write(e workflow.Entry) error {
	err := r.stay.write(e)
	if err == nil || errors.Is(err, workflow.ErrMail) {
		return err
	}
	r.held = nil
	r.stay.late(e.Steps...)
	r.exit()
	return err
}

// decode decodes what the journal has. If that fails, the run is held.
func (r *Run) decode(name string, doc json.RawMessage, to any) error {
	if err := guard(func() error { return json.Unmarshal(doc, to) }); err != nil {
		r.drifted(fmt.Errorf("flow: run %s: the value of step %q does not decode: %w", r.ID(), name, err))
	}
	return nil
}

// guard turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return fn()
}
