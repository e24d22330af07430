package flow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// How often the watch does what.
const (
	watchPace  = time.Second
	checkAfter = time.Second      // a run without a write is checked, if the store tells nothing
	checkSlow  = 15 * time.Second // the same, if the store tells of runs that are lost
	sweepBatch = 1000
)

// A watching is the state of the watch.
type watching struct {
	leases, sweep, slow time.Time            // when it did each last
	dead                map[string]time.Time // when a takeover from each process last found something, or began
	told                bool                 // the others know that this process beats
	full                bool                 // a takeover got as much as it had room for: there may be more
}

// watch takes over what dead processes have left, asks after claims without an answer, checks long steps, and sweeps.
// It ticks as long as this process owns something, or others beat.
func (e *Engine) watch(ctx context.Context) {
	w := watching{dead: make(map[string]time.Time), sweep: time.Now()}
	e.leases(ctx)
	w.leases = time.Now()
	e.member.Look()
	for ctx.Err() == nil {
		pause := watchPace
		busy := e.owns() || e.member.Company() || len(w.dead) > 0
		switch {
		case w.full:
			pause = watchPace / 10
		case !busy:
			w.told = false
			pause = e.poll()
		}
		e.doze(ctx, pause, busy)
		if ctx.Err() == nil {
			e.tick(ctx, &w)
		}
	}
}

// doze waits for d, until a process is found to have stopped, or until an idle process owns something.
func (e *Engine) doze(ctx context.Context, d time.Duration, busy bool) {
	_, died := e.member.Stop()
	stir := e.stir
	if busy {
		stir = nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-died:
	case <-ctx.Done():
	case <-stir:
		t.Reset(watchPace / 4) // most runs are over by then
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// owns reports whether this process owns runs, or may. What is asked seldom does not count.
func (e *Engine) owns() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.unanswered {
		if q.pause <= time.Minute {
			return true
		}
	}
	return len(e.stays) > 0
}

func (e *Engine) tick(ctx context.Context, w *watching) {
	if err := e.answers(ctx); err != nil && ctx.Err() == nil {
		e.options.Logger.Warn("not known whether a claim was granted, asked again", "err", logtext.Of(err))
	}
	e.takeOver(ctx, w)
	busy := e.owns() || e.member.Company()
	if (busy || !e.hears()) && time.Since(w.leases) > e.options.Lease/2 { // else claims has its turn for it
		w.leases = time.Now()
		e.leases(ctx)
	}
	if e.owns() && !w.told && e.listener != nil && e.member.Beats() {
		w.told = true
		e.listener.Tell(workflow.Note{Beats: true})
	}
	slow := time.Since(w.slow) > checkSlow
	if slow {
		w.slow = time.Now()
	}
	if slow || !e.hears() {
		e.check()
	}
	e.stale()
	if time.Since(w.sweep) > e.options.Sweep {
		w.sweep = time.Now()
		e.sweep(ctx)
	}
}

// takeOver takes over what processes own whose beats stand still. What is locked by a statement of theirs is skipped
// for now, so it asks again for some seconds. Then the beats of the dead are forgotten.
func (e *Engine) takeOver(ctx context.Context, w *watching) {
	defer e.fly()()
	w.full = false
	if len(w.dead) > 0 { // else the beats of the others are not looked at any more, and the dead come again as new
		e.member.Watch()
	}
	dead := e.member.Dead()
	maps.DeleteFunc(w.dead, func(name string, _ time.Time) bool { return dead[name] == 0 })
	for _, name := range slices.Sorted(maps.Keys(dead)) {
		began, known := w.dead[name]
		if !known {
			began = time.Now()
			w.dead[name] = began
			e.options.Logger.Warn("process stands still, and its runs are taken over", "process", name)
		}
		switch age := time.Since(began); {
		case age > e.options.Lease:
			if e.beater != nil {
				e.rest(ctx, name)
			}
			continue
		case age > 2*e.options.DeadAfter:
			continue
		}
		limit := e.free()
		if limit == 0 {
			w.dead[name] = time.Now()
			continue
		}
		claimed, _, err := e.ask(ctx, workflow.ClaimRequest{From: name, Limit: limit})
		if err != nil {
			e.options.Logger.Warn("takeover failed, and is tried again", "process", name, "err", logtext.Of(err))
		}
		if e.adopt(claimed, false); len(claimed) > 0 {
			w.dead[name], w.full = time.Now(), w.full || len(claimed) == limit
		}
	}
}

// rest makes the store forget the beats of a process that has stopped.
func (e *Engine) rest(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	if err := e.beater.Rest(ctx, name); err != nil {
		e.options.Logger.Warn("beats not forgotten", "process", name, "err", logtext.Of(err))
	}
}

// free returns how many runs this process takes over at once.
func (e *Engine) free() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return min(max(2*e.options.Workers-e.active-len(e.queue), 0), workflow.MaxBatch)
}

// leases takes over what processes own that have not beaten for long, and notes the definitions of this process. If the
// store was away, no process could beat. Then this process waits until all have had the time.
func (e *Engine) leases(ctx context.Context) {
	defer e.fly()()
	limit := e.free()
	if e.member.Failing() || time.Since(e.lastFailure()) < e.options.Lease/2 {
		limit = 0
	}
	claimed, _, err := e.ask(ctx, workflow.ClaimRequest{Lease: e.options.Lease, Limit: limit})
	if err != nil && ctx.Err() == nil {
		e.options.Logger.Warn("leases not looked at", "err", logtext.Of(err))
	}
	e.adopt(claimed, false)
}

func (e *Engine) lastFailure() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// fails notes that a call to the store has failed.
func (e *Engine) fails(err error) {
	if err == nil || store.IsVerdict(err) {
		return
	}
	e.mu.Lock()
	e.failed = time.Now()
	e.mu.Unlock()
}

// check asks, for each run without a write for a while, whether it is still ours.
func (e *Engine) check() {
	e.mu.Lock()
	var long []*stay
	for _, x := range e.stays {
		if time.Since(x.since) > checkAfter {
			long = append(long, x)
		}
	}
	e.mu.Unlock()
	for _, x := range long {
		e.checks.Go(x.check)
	}
}

// check asks whether the run is still ours.
func (x *stay) check() {
	err := x.engine.writer.write(workflow.Entry{Run: x.run.ID, Fence: x.fence, Mail: -1})
	if errors.Is(err, workflow.ErrOver) || errors.Is(err, workflow.ErrNotFound) || errors.Is(err, lock.ErrFenced) {
		if !x.over.Load() {
			x.lose(err)
		}
	}
}

// stale gives back what has waited here for a worker: other processes may have one.
func (e *Engine) stale() {
	e.mu.Lock()
	var queue []*stay
	if len(e.queue) > 0 && time.Since(e.queued) > 2*watchPace {
		queue, e.queue = e.queue, nil
	}
	e.mu.Unlock()
	for _, x := range queue {
		e.giveBack(x)
	}
}

// sweep deletes runs whose retention has passed, in batches.
func (e *Engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, mostWait) // the watch has more to do
	defer cancel()
	for ctx.Err() == nil {
		n, err := e.store.Sweep(ctx, sweepBatch)
		if err != nil && ctx.Err() == nil {
			e.options.Logger.Warn("sweep failed", "err", logtext.Of(err))
		}
		if n > 0 {
			e.telemeter.each(func(m Metrics) { m.Swept(n) })
		}
		if err != nil || n < sweepBatch {
			return
		}
	}
}
