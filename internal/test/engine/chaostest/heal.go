package chaostest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// heal ends all trouble. The copies on their way arrive, and one process finishes all unfinished work.
func (w *simulation) heal() {
	w.note("the network is whole")
	w.plan = w.plan.calm()
	for len(w.late) > 0 {
		w.next()
		w.arrive()
	}
	w.rest()
	healer := w.start(true)
	w.pass(leaseTTL + 1)
	w.drain(healer)
	for _, r := range w.rooms {
		w.resume(healer, r)
	}
	for _, r := range w.rooms {
		w.probe(healer, r)
	}
	for _, r := range w.rooms {
		w.nothingLeft(healer, r)
	}
}

// rest waits for the goroutines of dead processes, and for running renewals.
func (w *simulation) rest() {
	for {
		w.next()
		w.mu.Lock()
		working, pending := w.working, w.pending
		w.mu.Unlock()
		switch {
		case len(pending) > 0:
			w.serve(pending[0])
		case working > 0:
			w.pass(1)
		default:
			return
		}
	}
}

// aside makes a call without any trouble.
func (w *simulation) aside(c *call, ask func(context.Context) answer) answer {
	w.step++
	w.calls = append(w.calls, c)
	c.n, c.begun, c.start = len(w.calls), w.step, time.Now()
	w.note("call %v", c)
	c.got = ask(context.WithValue(context.Background(), callKey{}, c))
	w.step++
	c.over, c.took = w.step, time.Since(c.start)
	w.note("%v is told %v", c, c.got)
	return c.got
}

// drain recovers until there is nothing to recover. With the real clock, it does not wait for deliveries that are not
// due yet.
func (w *simulation) drain(p *process) {
	rounds := 12
	if !w.time.virtual {
		rounds = 1
	}
	for range rounds {
		for _, session := range w.recoverable(p) {
			w.aside(&call{kind: "Recover", at: p, session: session}, func(ctx context.Context) (a answer) {
				a.what, a.err = p.bot.Recover(ctx, session)
				return a
			})
		}
		if w.time.virtual {
			w.pass(int(10 * time.Minute / w.time.quantum))
		}
	}
	if left := w.recoverable(p); len(left) > 0 && w.time.virtual {
		w.errorf(Idle, "%v are still to be recovered", left)
	}
}

func (w *simulation) recoverable(p *process) (sessions []string) {
	for session, err := range p.bot.Recoverable(context.Background(), true) {
		if err != nil {
			w.errorf(Idle, "recoverable: %v", err)
			break
		}
		sessions = append(sessions, session)
	}
	return sessions
}

// resume finishes parked runs, which a drain leaves alone.
func (w *simulation) resume(p *process, r *room) {
	for range 10 {
		a := w.aside(&call{kind: "Resume", at: p, session: r.session, force: true},
			func(ctx context.Context) (a answer) {
				a.res, a.err = p.bot.Resume(ctx, r.session, &orchestrator.CallOptions{Force: true})
				return a
			})
		if errors.Is(a.err, orchestrator.ErrNothingToResume) {
			return
		}
	}
	w.errorf(Idle, "%s: there is always something to resume", r.session)
}

// probe sends an input. The call also delivers replies that are not due yet.
func (w *simulation) probe(p *process, r *room) {
	in := &input{Input: orchestrator.Input{Text: fmt.Sprintf("%c-last", short), RequestID: "last"}}
	r.inputs = append(r.inputs, in)
	c := &call{kind: "Execute", at: p, session: r.session, input: in}
	in.sent = []*call{c}
	a := w.aside(c, func(ctx context.Context) (a answer) {
		a.res, a.err = p.bot.Execute(ctx, r.session, in.Input, nil)
		return a
	})
	if a.err != nil {
		w.errorf(Healthy, "%v: %v", c, a.err)
	}
}

// nothingLeft checks that a session has no run and no owed reply.
func (w *simulation) nothingLeft(p *process, r *room) {
	ctx := context.Background()
	for run, err := range w.Snapshots.Runs(ctx, snapshot.Query{Key: w.key(r.session)}) {
		w.errorf(Idle, "%s: %v is in flight, %s, error %v", r.session, runName(run.ID), run.Status, err)
	}
	q := checkpoint.SessionQuery{Orchestrator: w.name, Prefix: r.session, Owing: true}
	for session, err := range w.Checkpoints.Sessions(ctx, q) {
		w.errorf(Idle, "%s is owed, error %v", session, err)
	}
	if slices.Contains(w.recoverable(p), r.session) {
		w.errorf(Idle, "%s: is still to be recovered", r.session)
	}
	claim := checkpoint.ClaimRequest{Owner: "judge", Nonce: w.nonce(), TTL: time.Minute}
	_, err := w.Checkpoints.Claim(ctx, w.key(r.session), claim)
	if errors.Is(err, lock.ErrHeld) {
		w.errorf(Idle, "%s: %v", r.session, err)
	}
}
