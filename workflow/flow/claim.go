package flow

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// request returns r with the name and the definitions of this process, and a new nonce.
func (e *Engine) request(r workflow.ClaimRequest) workflow.ClaimRequest {
	r.Process, r.Nonce, r.Definitions, r.Limits = e.member.Name(), rand.Text(), e.names, e.limits
	r.MostCrashes = e.options.MostCrashes
	return r
}

// claims claims until ctx ends.
func (e *Engine) claims(ctx context.Context) {
	failures := 0
	for turn := 0; ctx.Err() == nil; {
		full, err := e.claim(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.options.Logger.Warn("claim failed, and is tried again", "err", logtext.Of(err))
			e.due(time.Now().Add(min(10*time.Millisecond<<min(failures, 7), time.Second)))
			failures++
		case full:
			failures = 0
			continue
		default:
			failures = 0
		}
		for e.sleep(ctx) && e.skips(ctx, &turn) {
		}
	}
}

// claim waits for room, and claims as many runs as there is room for. full says that there may be more.
func (e *Engine) claim(ctx context.Context) (full bool, err error) {
	limit := e.room(ctx)
	defer e.fly()()
	claimed, next, err := e.ask(ctx, workflow.ClaimRequest{Limit: limit})
	if next > 0 {
		e.due(time.Now().Add(next))
	}
	e.adopt(claimed, false)
	return len(claimed) == limit, err
}

// ask claims. If the answer is lost, the watch asks again for what was claimed. As long as a question is open, nothing
// else is claimed: a store that is away leaves one question, and not one for each attempt.
func (e *Engine) ask(ctx context.Context, r workflow.ClaimRequest) ([]workflow.Claimed, time.Duration, error) {
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	if err := e.answers(ctx); err != nil {
		return nil, 0, err
	}
	// A process that shuts down waits for the answer, and gives back what was claimed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostWait)
	defer cancel()
	r = e.request(r)
	claimed, next, err := e.store.Claim(ctx, r)
	if err != nil {
		e.fails(err)
		e.unsure(r.Nonce, err)
	}
	return claimed, next, err
}

// A question is about runs that this process may own under a nonce, and does not know of. The claim with that nonce may
// also be on its way still, so a question that was answered is asked again for a while.
type question struct {
	// asked is the nonce of a claim that has asked the question, and got no answer. From then on the question is asked
	// with this nonce alone. So a store that is away leaves one nonce more, and not one for each attempt.
	asked string

	answered bool
	next     time.Time
	pause    time.Duration
}

// mostAsked is the longest pause after which a question is asked again.
const mostAsked = time.Hour

// unsure notes a claim or a start that may have been granted.
func (e *Engine) unsure(nonce string, err error) {
	if denied(err) {
		return
	}
	e.mu.Lock()
	e.unanswered[nonce] = &question{next: time.Now(), pause: time.Second}
	e.mu.Unlock()
	poke(e.stir)
}

// denied reports whether the store has certainly not done what it was asked.
func denied(err error) bool { return store.IsVerdict(err) || errors.Is(err, store.ErrRefused) }

// open reports whether a question has no answer yet. The caller holds mu.
func (e *Engine) open() bool {
	for _, q := range e.unanswered {
		if !q.answered {
			return true
		}
	}
	return false
}

// answers asks the questions that are due, or open.
func (e *Engine) answers(ctx context.Context) error {
	e.asking.Lock()
	defer e.asking.Unlock()
	for {
		due := e.questions()
		if len(due) == 0 {
			return nil
		}
		for nonce, q := range due {
			if err := e.again(ctx, nonce, q); err != nil {
				return err
			}
		}
	}
}

// questions returns the questions that are due, or open.
func (e *Engine) questions() map[string]*question {
	e.mu.Lock()
	defer e.mu.Unlock()
	due := make(map[string]*question)
	for nonce, q := range e.unanswered {
		if !q.answered || !time.Now().Before(q.next) {
			due[nonce] = q
		}
	}
	return due
}

// again asks what this process owns under a nonce. What it claims gets a nonce of its own, so that a question that
// arrives late takes nothing from its stay. If an earlier claim with the new nonce had no answer, it may have claimed
// something too: then what all of them have claimed is a question, and nothing of it is adopted before. The caller
// holds asking.
func (e *Engine) again(ctx context.Context, nonce string, q *question) error {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	defer e.fly()()
	r := e.request(workflow.ClaimRequest{Again: nonce, Limit: workflow.MaxBatch})
	cut := q.asked != ""
	if cut {
		r.Nonce = q.asked
	}
	claimed, _, err := e.store.Claim(ctx, r)
	if err != nil {
		e.fails(err)
		if !denied(err) {
			q.asked = r.Nonce
		}
		return err
	}
	e.mu.Lock()
	if cut {
		if e.unanswered[r.Nonce] == nil {
			e.unanswered[r.Nonce] = &question{pause: q.pause}
		}
		e.unanswered[r.Nonce].answered = false
		claimed = nil
	}
	q.answered, q.next = true, time.Now().Add(q.pause)
	if q.pause *= 2; q.pause > mostAsked {
		delete(e.unanswered, nonce)
	}
	e.mu.Unlock()
	e.adopt(claimed, false)
	return nil
}

// room waits until there is room for more runs, and returns for how many. There is room for one for each free worker,
// and for as many more as end in a tenth of a second: a process with long steps queues nothing. Nor does a process with
// limits: what is queued would have a place, and not use it.
func (e *Engine) room(ctx context.Context) int {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		e.idle.Broadcast()
		e.mu.Unlock()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	queues := func() int {
		if len(e.limits) > 0 {
			return 0
		}
		return e.pace.now()
	}
	for ctx.Err() == nil && e.active >= e.options.Workers && 2*len(e.queue) >= queues() {
		e.idle.Wait()
	}
	room := e.options.Workers - e.active + min(queues(), 2*e.options.Workers) - len(e.queue)
	return min(max(room, 1), workflow.MaxBatch)
}

// A pace counts what ends, in intervals of a tenth of a second.
type pace struct {
	began         time.Time // when the interval did
	count, count0 int       // in the interval, and in the one before
}

// turn begins a new interval if the last one is over.
func (p *pace) turn() {
	switch since := time.Since(p.began); {
	case since > 200*time.Millisecond:
		p.began, p.count, p.count0 = time.Now(), 0, 0
	case since > 100*time.Millisecond:
		p.began, p.count, p.count0 = time.Now(), 0, p.count
	}
}

func (p *pace) end() { p.turn(); p.count++ }

func (p *pace) now() int { p.turn(); return max(p.count, p.count0) }

// poll returns for how long an idle engine waits.
func (e *Engine) poll() time.Duration {
	switch {
	case e.options.Poll > 0:
		return e.options.Poll
	case e.hears():
		return 30 * time.Second
	}
	return time.Second
}

// hears reports whether this process is told of what others do.
func (e *Engine) hears() bool { return e.listener != nil && e.listener.Hears() }

// sleep waits until runs may be due: for as long as an idle engine waits, and not longer than until the next run is due
// that is known. It returns true if nothing has happened.
func (e *Engine) sleep(ctx context.Context) (idle bool) {
	until := time.Now().Add(e.poll())
	for {
		e.mu.Lock()
		at := until
		planned := !e.soonest.IsZero() && !e.soonest.After(at)
		if planned {
			at = e.soonest
		}
		e.mu.Unlock()
		t := time.NewTimer(time.Until(at))
		select {
		case <-e.plan:
			t.Stop()
			continue
		case <-e.wake:
		case <-t.C:
			idle = !planned
		case <-ctx.Done():
		}
		t.Stop()
		e.mu.Lock()
		if !e.soonest.After(time.Now()) {
			e.soonest = time.Time{}
		}
		e.mu.Unlock()
		return idle
	}
}

// skips reports whether an idle engine does something else in place of a claim. Among processes that own nothing, each
// makes one statement in one Poll: in turn it claims, and looks for what others have left. When another process begins
// to beat, it says so.
func (e *Engine) skips(ctx context.Context, turn *int) bool {
	if ctx.Err() != nil {
		return false
	}
	*turn++
	if !e.hears() || e.member.Company() {
		if *turn%5 == 0 {
			e.member.Look()
		}
		return false
	}
	if *turn%2 == 0 {
		return false
	}
	e.leases(ctx)
	return true
}
