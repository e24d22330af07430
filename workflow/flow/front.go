package flow

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Front returns the store for clients in this process. A run that they start is begun here at once, without a claim, as
// long as a worker is free, and Result of it costs no statement. A start by name has the version and the retention of
// the definition here, the greatest version if there are several.
func (e *Engine) Front() workflow.Front { return &front{e.store, e} }

type front struct {
	workflow.Front
	e *Engine
}

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
			if n.Delay == 0 && owned < room {
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
				Key: n.Key, RetentionDays: n.RetentionDays, Owner: n.Owner,
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
