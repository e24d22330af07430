package enginetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A trial is one run of a scenario.
type trial struct {
	*scenario
	fault  fault
	point  string // point of the fault, or ""
	follow act

	// slow is a factor for all times.
	slow int
}

// run plays the trial, and returns the points of the process under test.
func (h trial) run(ctx context.Context, w *world, s *slot) []string {
	if h.found != nil {
		if err := h.found(ctx, w); err != nil {
			w.accuse(Healthy, "what the process finds: %v", err)
			return nil
		}
	}
	if h.act.name == zero.name {
		w.retries()
	}
	p := w.process("P1", h.fault)
	p.failing, p.settle, p.idle = h.fails, time.Duration(h.slow)*h.fault.kind.patience(), s.give
	if h.expires && h.fault.kind != nothing {
		p.ttl = time.Duration(h.slow) * passing
	}
	if h.silent {
		p.deadAfter = time.Duration(h.slow) * passing
	}
	var judged sync.WaitGroup
	judged.Go(func() {
		res, err := p.act(ctx, h.how, h.act)
		h.judge(p, res, err)
	})
	select {
	case <-p.done:
		judged.Wait()
	case <-p.stalled:
	}
	if p.waited() {
		s.take()
	}
	goOn := sync.OnceFunc(func() {
		p.goOn()
		judged.Wait()
	})
	if !h.fault.kind.waits() {
		goOn()
	}
	h.after(ctx, w, goOn)
	return p.passed()
}

// after plays the part that follows the process under test.
func (h trial) after(ctx context.Context, w *world, goOn func()) {
	next := w.process("P2", fault{})
	if h.silent {
		next.deadAfter = time.Duration(h.slow) * passing
	}
	if h.fault.kind.needsMiddle() {
		next.amid = func(run string) {
			// Otherwise Abandon would end the turn, and rightly.
			if h.act.name != abandon.name || run != w.firstRun() {
				goOn()
			}
		}
	}
	bot, err := next.start(orchestrator.ResumeFirst)
	if err != nil {
		w.accuse(Healthy, "%v", err)
		return
	}
	if h.follow.name == h.act.name || h.follow.name == zero.name {
		w.forgive()
	}
	if !h.expires && !h.silent && !h.follow.takes() {
		w.bury(ctx)
	}
	w.does(ctx, bot, h.follow)
	if h.fault.kind.waits() {
		goOn()
		w.bury(ctx)
		w.does(ctx, bot, simple)
	}
}

// does gives a healthy process the act, and finishes all unfinished work.
func (w *world) does(ctx context.Context, bot *engine, a act) {
	res, err := w.asks(ctx, bot, a)
	w.note("P2: %s returns %v, %v", a.name, said(res), err)
	w.hear(a, "", res, err)
	if a.takes() {
		w.bury(ctx) // the session may have been free
	}
	if r := w.inFlight(ctx); r != nil && r.Status != snapshot.Ended && err == nil {
		if a.name == remove.name || a.name == abandon.name && r.ID == w.firstRun() {
			w.accuse(Accepted, "after %s, run %s is %s", a.name, r.ID, r.Status)
		}
	}
	if err := a.check(res, err); err != nil {
		w.accuse(Healthy, "%s by a healthy process: %v", a.name, err)
	}
	if err := w.drain(ctx, bot); err != nil {
		w.accuse(Healthy, "drain: %v", err)
	}
	w.verify(ctx, bot)
}

// judge checks the answer of the process under test.
func (h trial) judge(p *process, res *Result, err error) {
	if hit := p.suffered(); hit != h.point {
		p.miss(hit, h.point, p.passed(), h.expires)
	}
	if p.dead() {
		return
	}
	p.mu.Lock()
	began := p.began
	p.mu.Unlock()
	p.hear(h.act, began, res, err)
	left := h.fault.kind == leave && began != "" && h.fails == ""
	if left && err != nil && !errors.Is(err, orchestrator.ErrIndeterminate) {
		p.accuse(Accepted, "the caller has left, and is told: %v", err)
	}
	if h.heals() {
		p.mustHeal(h.act, h.fault.kind, h.check(res, err))
	}
}

// heals reports whether the call ends as if there had been no fault.
func (h trial) heals() bool {
	switch h.fault.kind {
	case nothing, twice:
		return true
	case before, after, late, amid, later:
		return repeated(h.point) || spared(h.point) || h.point == "claim" || h.point == "steal"
	case hang:
		return repeated(h.point) || spared(h.point)
	}
	return false
}
