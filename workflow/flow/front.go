package flow

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Front returns the store for clients in this process. A run that they start is begun here at once, without a claim, as
// long as a worker is free, and Result of it costs no statement. A run of a workflow with a Limit is not: it waits for
// its place. A start by name has the version and the retention of the definition here, the greatest version if there
// are several.
func (e *Engine) Front() workflow.Front { return &front{e.store, e.store, e} }

type front struct {
	workflow.Front
	topics

	e *Engine
}

// As a field of its own name, it would hide its method of that name.
type topics = workflow.Subscriptions

var _ workflow.Subscriptions = (*front)(nil)

// Start starts runs that this process owns from the beginning, if it has room for them.
func (f *front) Start(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
	e, nonce := f.e, rand.Text()
	defer e.fly()()
	own := make([]workflow.NewRun, len(runs))
	owned := 0
	e.mu.Lock()
	room := 0
	if e.up && !e.open() {
		room = e.options.Workers - e.active
	}
	for i, n := range runs {
		n.Input = unsigned(n.Input)
		def := e.newest(n.Workflow, n.Version)
		if def != nil {
			n.Version = def.Version
			n.RetentionDays = cmp.Or(n.RetentionDays, def.keep)
			owns := n.Delay == 0 && n.From == "" && !n.Debounce && def.limit == (Limit{})
			if owns && owned < room {
				n.Owner, n.Fence = e.member.Name(), lock.Fence{Epoch: 1, Nonce: nonce}
				owned++
			}
		}
		own[i] = n
	}
	e.active += owned // they have their workers
	e.mu.Unlock()
	started, err := f.Front.Start(ctx, own)
	if err != nil {
		started = nil
		if owned > 0 {
			e.unsure(nonce, err)
		}
	}
	var mine []workflow.Claimed
	for i, s := range started {
		if n := &own[i]; s.New && n.Owner != "" {
			mine = append(mine, workflow.Claimed{Fence: n.Fence, Run: workflow.Run{
				ID: n.ID, Workflow: n.Workflow, Version: n.Version, Status: workflow.Running, Input: document(n.Input),
				Key: n.Key, Parent: n.Parent, RetentionDays: n.RetentionDays, Owner: n.Owner,
			}})
		}
	}
	e.mu.Lock()
	e.active -= owned
	e.idle.Broadcast()
	e.mu.Unlock()
	e.adopt(mine, true)
	return started, err
}

// Send gives messages to runs. It counts the runs that it has cancelled.
func (f *front) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	receipts, err := f.Front.Send(ctx, messages)
	if err != nil || !f.e.telemeter.counts() {
		return receipts, err
	}
	for i, m := range messages {
		if m.Action == workflow.Cancel && receipts[i] == workflow.Applied {
			f.cancelled(ctx, m.Run)
		}
	}
	return receipts, nil
}

// cancelled tells that a run was cancelled, and its descendants with it. The store does not say of which workflow they
// are, so each of them costs a list of its children.
func (f *front) cancelled(ctx context.Context, run string) {
	at := time.Time{} // what was cancelled before that was counted then
	for family := []workflow.Query{{ID: run}}; len(family) > 0; {
		q := family[0]
		family = family[1:]
		for r, err := range f.Runs(ctx, q) {
			if err != nil || r.Status != workflow.Cancelled || r.Completed.Before(at) {
				continue
			}
			if at.IsZero() {
				at = r.Completed
			}
			f.e.telemeter.each(func(m Metrics) { m.Ended(r.Workflow, r.Status, r.Completed.Sub(r.Started)) })
			family = append(family, workflow.Query{Parent: r.ID})
		}
	}
}

func document(doc []byte) []byte {
	if doc == nil {
		return []byte("null")
	}
	return doc
}

// newest returns the definition of a start, or nil.
func (e *Engine) newest(name string, version int) (newest *definition) {
	if version != 0 {
		return e.defs[workflow.Definition{Workflow: name, Version: version}]
	}
	for d, def := range e.defs {
		if d.Workflow == name && (newest == nil || d.Version > newest.Version) {
			newest = def
		}
	}
	return newest
}

// Await implements workflow.Awaiter.
func (f *front) Await(ctx context.Context, run string) (r workflow.Run, known bool, err error) {
	e := f.e
	e.mu.Lock()
	if e.stays[run] == nil {
		e.mu.Unlock()
		return r, false, nil
	}
	c := make(chan workflow.Run, 1)
	e.waiters[run] = append(e.waiters[run], c)
	e.mu.Unlock()
	select {
	case r, known = <-c:
		return r, known, nil
	case <-ctx.Done():
		e.mu.Lock()
		e.waiters[run] = slices.DeleteFunc(e.waiters[run], func(w chan workflow.Run) bool { return w == c })
		if len(e.waiters[run]) == 0 {
			delete(e.waiters, run)
		}
		e.mu.Unlock()
		return r, false, ctxcause.Of(ctx)
	}
}
