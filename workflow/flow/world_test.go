package flow_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A world is a memory store with processes on it, in a bubble of testing/synctest.
type world struct {
	*testing.T
	store *workflow.Memory
	*workflow.Client
}

// inBubble runs f in a bubble, where days pass in no time.
func inBubble(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		m := new(workflow.Memory)
		f(&world{t, m, workflow.NewClient(m)})
	})
}

var errCut = errors.New("connection reset")

// A process is the way of one process to the store. While it is cut, nothing gets through.
type process struct {
	*workflow.Memory

	mu     sync.Mutex // protects following fields
	isCut  bool
	calls  map[string]int
	before func(what string) error // nil, or called before each call
	after  func(what string) error // nil, or called after each call that succeeded
}

func (p *process) cut(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = is
}

func (p *process) call(what string, call func() error) error {
	p.mu.Lock()
	cut, before, after := p.isCut, p.before, p.after
	if p.calls == nil {
		p.calls = make(map[string]int)
	}
	p.calls[what]++
	p.mu.Unlock()
	if cut {
		return errCut
	}
	if before != nil {
		if err := before(what); err != nil {
			return err
		}
	}
	if err := call(); err != nil {
		return err
	}
	if after != nil {
		return after(what)
	}
	return nil
}

func (p *process) count(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[what]
}

func (p *process) Start(ctx context.Context, runs []workflow.NewRun) (all []workflow.Started, err error) {
	err = p.call("start", func() error { all, err = p.Memory.Start(ctx, runs); return err })
	return all, err
}

func (p *process) Claim(
	ctx context.Context, r workflow.ClaimRequest,
) (all []workflow.Claimed, next time.Duration, err error) {
	what := "claim"
	switch {
	case r.Again != "":
		what = "again"
	case r.Lease != 0:
		what = "lease"
	case r.From != "":
		what = "from"
	}
	err = p.call(what, func() error { all, next, err = p.Memory.Claim(ctx, r); return err })
	if err != nil {
		return nil, 0, err
	}
	return all, next, nil
}

func (p *process) Write(ctx context.Context, entries []workflow.Entry) (verdicts []error, err error) {
	err = p.call("write", func() error { verdicts, err = p.Memory.Write(ctx, entries); return err })
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

func (p *process) Beat(ctx context.Context, name string) (beats map[string]int64, err error) {
	err = p.call("beat", func() error { beats, err = p.Memory.Beat(ctx, name); return err })
	return beats, err
}

// process returns another process on the store.
func (w *world) process() *process { return &process{Memory: w.store} }

// run runs an engine until stop is called.
func (w *world) run(s workflow.Store, o *flow.Options, defs ...flow.Definition) (e *flow.Engine, stop func()) {
	if o == nil {
		o = new(flow.Options)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e = flow.NewEngine(s, o, defs...)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	w.Cleanup(stop)
	return e, stop
}

// start starts a run by name.
func (w *world) start(name string, input any, o *workflow.StartOptions) string {
	w.Helper()
	s, err := w.Client.Start(w.Context(), name, input, o)
	if err != nil {
		w.Fatal(err)
	}
	return s.ID
}

// await returns a run when it is over.
func (w *world) await(id string) workflow.Run {
	w.Helper()
	r, err := w.Await(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// completed awaits a run, and fails unless it has completed with the output.
func (w *world) completed(id, output string) {
	w.Helper()
	r := w.await(id)
	if r.Status != workflow.Completed || string(r.Output) != output {
		w.Errorf("run is %s with %s, %q, want %s", r.Status, r.Output, r.Error, output)
	}
}

func (w *world) get(id string) workflow.Run {
	w.Helper()
	r, err := w.Get(w.Context(), id)
	if err != nil {
		w.Error(err)
	}
	return r
}

// journal returns the rows of a run by name.
func (w *world) journal(id string) map[string]workflow.Step {
	w.Helper()
	rows := make(map[string]workflow.Step)
	for st, err := range w.Steps(w.Context(), id) {
		if err != nil {
			w.Fatal(err)
		}
		rows[st.Name] = st
	}
	return rows
}

// signal sends an event.
func (w *world) signal(id, event string, payload any, key string) workflow.Receipt {
	w.Helper()
	r, err := w.Signal(w.Context(), id, event, payload, key)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// names returns the names of the journal in the order of the places.
func names(rows map[string]workflow.Step) (all []string) {
	for name := range rows {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int { return rows[a].Index - rows[b].Index })
	return all
}
