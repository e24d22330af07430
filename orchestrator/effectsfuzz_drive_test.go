package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The laws.
const (
	lawOnce     = "an order is paid at most once"
	lawTold     = "a turn that is told as failed has no open effect, and what was paid for it is recorded"
	lawAsked    = "a turn does not settle over an effect that an earlier owner has left and its code has not asked for"
	lawAnswered = "an answer of a person is not lost"
	lawEnds     = "a run that only time and answers stand in the way of comes to an end"
)

// written judges a write of an engine.
func (w *effectWorld) written(p *effectProcess, c faulttest.Call) {
	switch {
	case c.Method == "Begin":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runNote(c.Run)
		w.sessions[c.Session] = true
	case c.Method == "Save" && c.Status == snapshot.Ended:
		effects := w.effects(ledger.Query{RunID: c.Run})
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.ending {
			w.judgeFailed(c.Run, effects)
		}
		w.note("the run %.6s has ended", c.Run)
		w.runNote(c.Run).ended++
	case c.Method == "Append":
		effects := w.effects(ledger.Query{RunID: c.Run})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.judgeSettled(p, c.Run, effects)
		w.note("the run %.6s has settled", c.Run)
		w.runNote(c.Run).settled = true
	}
}

// judgePayment judges a payment that is about to be booked. With a Key an order is paid once ever. Without a Key it is
// paid once by a run, and again only if the run before is over: settled, abandoned or failed.
func (w *effectWorld) judgePayment(e entry) {
	if w.answered[e.key] {
		w.breaks(lawAnswered, "a person said that %.6s landed, and it is paid again", e.key)
	}
	for _, before := range w.book {
		if before.order != e.order {
			continue
		}
		r, now := w.runNote(before.run), w.runNote(e.run)
		over := r.ended > before.episode ||
			before.run != e.run && (r.settled || w.abandoned[r.request] || w.abandoned[now.request])
		if !over || w.plan.keyed {
			w.breaks(lawOnce, "%s is paid under %.6s by run %.6s, after it was paid under %.6s by run %.6s",
				e.order, e.key, e.run, before.key, before.run)
		}
	}
}

// judgeFailed judges that a run is over without a turn.
func (w *effectWorld) judgeFailed(run string, effects []ledger.Effect) {
	state := make(map[string]ledger.State)
	for _, e := range effects {
		if state[e.ID] = e.State; e.State.Open() {
			w.breaks(lawTold, "effect %.6s of the failed run %.6s is %s", e.ID, run, e.State)
		}
	}
	for _, paid := range w.book {
		if paid.run == run && state[paid.key] != ledger.Completed && state[paid.key] != "" {
			w.breaks(lawTold, "%s was paid for the failed run %.6s, and its effect %.6s is %s",
				paid.order, run, paid.key, state[paid.key])
		}
	}
}

// judgeSettled judges that a process settles a run. What the functions of another process have kept to themselves may
// be open in a branch, or an iteration, that was saved.
func (w *effectWorld) judgeSettled(p *effectProcess, run string, effects []ledger.Effect) {
	r := w.runNote(run)
	if r.ended > 0 { // it was abandoned, or has failed, and has begun anew
		return
	}
	for _, e := range effects {
		order := strings.Trim(string(e.Args), `"`)
		asked := r.asked[p][order]
		if w.plan.shape != "single" {
			asked = asked || r.swallowed[order] || r.got[order] && !e.State.Open()
		}
		if !asked && !w.forcing && (e.State.Open() || e.AnsweredBy != "") {
			w.breaks(lawAsked, "run %.6s, effect %.6s, which is %s, answered by %q", run, e.ID, e.State, e.AnsweredBy)
		}
	}
}

// judgeTold judges that the customer was told that a request has failed.
func (w *effectWorld) judgeTold(request string) {
	effects := w.effects(ledger.Query{})
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range w.runs {
		if r.request != request || r.settled || w.abandoned[request] {
			continue
		}
		var own []ledger.Effect
		for _, e := range effects {
			if e.RunID == id {
				own = append(own, e)
			}
		}
		w.judgeFailed(id, own)
	}
}

// last is the newest process.
func (w *effectWorld) last() *effectProcess { return w.processes[len(w.processes)-1] }

// process returns a process that lives. A dead one, or one that a deploy ends, has a successor of the next deploy.
func (w *effectWorld) process(round int) *effectProcess {
	d, n := w.plan.dice, len(w.processes)
	switch {
	case n == 0:
		return w.start(0)
	case w.last().isDead() && d.chance(70, "freed", n):
		w.free()
		return w.start(w.next())
	case w.last().isDead(), n < 6 && d.chance(15, "deploy", round):
		_ = w.last().close()
		return w.start(w.next())
	}
	return w.last()
}

// next is the deploy of the next process.
func (w *effectWorld) next() int {
	if w.last().deploy == bothNames {
		return bothNames
	}
	return len(w.processes)
}

// free frees the sessions of dead processes. Otherwise the next process waits until they are found dead.
func (w *effectWorld) free() {
	w.mu.Lock()
	sessions := maps.Clone(w.sessions)
	w.mu.Unlock()
	for _, session := range slices.Sorted(maps.Keys(sessions)) {
		k := checkpoint.Key{Orchestrator: "shop", Session: session}
		if w.plan.tool && session == "s" {
			k.Orchestrator = "parent"
		}
		c, err := seize(context.Background(), w.Checkpoints, k, "another", time.Minute)
		if err == nil {
			err = w.Checkpoints.Mark(context.Background(), c.Lease, checkpoint.Marks{Release: true})
		}
		if err != nil {
			w.t.Error(err)
		}
	}
}

// close ends a process that is not dead.
func (p *effectProcess) close() error {
	err := p.shop.Shutdown(context.Background())
	return errors.Join(err, p.front.Shutdown(context.Background()))
}

// replace replaces the process by one that has the intents of all deploys.
func (w *effectWorld) replace() *effectProcess {
	if w.last().deploy == bothNames {
		return w.last()
	}
	_ = w.last().close()
	return w.start(bothNames)
}

const mostRounds = 60

// play plays the requests of a customer to their end.
func (w *effectWorld) play() {
	w.tell("%v", w.plan)
	for request := range 3 {
		w.mu.Lock()
		w.request = fmt.Sprint("request ", request)
		w.mu.Unlock()
		again := w.plays(w.request)
		if !again || len(w.broken) > 0 || w.stopped {
			break
		}
	}
	w.finish()
}

// goesRound ends a play in which a call never returns: it tries the same again and again, without a pause.
func (w *effectWorld) goesRound(p *effectProcess) {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.breaks(lawEnds, "a call of %v goes round without end", p)
}

// plays plays one request, and reports whether the customer sends another: this one has failed, or was abandoned.
func (w *effectWorld) plays(request string) (again bool) {
	d := w.plan.dice
	for round := range mostRounds {
		p := w.process(round)
		time.Sleep(time.Duration(d.pick(20e9, "pause", request, round)))
		if w.plan.abandons && d.chance(15, "abandon", request, round) && w.abandon(p, request, round) {
			return true
		}
		if round > 0 && d.chance(25, "drain", request, round) {
			w.drain(p)
			continue
		}
		err := w.send(p, request, round)
		if w.stopped {
			return false
		}
		if p.isDead() {
			continue // the connection of the customer broke
		}
		w.tell("the customer hears: %v", brief(err))
		switch {
		case err == nil:
			return false
		case w.goesOn(err, round):
		default:
			w.judgeTold(request)
			return true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breaks(lawEnds, "%s is in flight after %d rounds", request, mostRounds)
	return false
}

// send sends a request. Some customers give up early.
func (w *effectWorld) send(p *effectProcess, request string, round int) error {
	ctx := p.ctx
	if w.plan.dice.chance(20, "gives up", request, round) && round < 20 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.plan.dice.pick(8e9, "gives up after", request, round)))
		defer cancel()
	}
	w.tell("%v gets %s", p, request)
	_, err := p.front.Execute(ctx, "s", Input{RequestID: request, Text: "pay"}, nil)
	return err
}

// goesOn reports whether an error says that the turn is not over. It does what the turn waits for.
func (w *effectWorld) goesOn(err error, round int) bool {
	var drift *orchestrator.DriftError
	switch {
	case errors.Is(err, orchestrator.ErrAbandoned) && w.abandoned[w.request]:
		return false
	case errors.As(err, &drift):
		if w.plan.dice.chance(50, "rolls back", round) {
			w.replace()
		}
	case errors.Is(err, orchestrator.ErrSuspended):
		w.desk()
	case errors.Is(err, orchestrator.ErrParked):
		w.forces()
	case errors.Is(err, orchestrator.ErrIndeterminate):
		time.Sleep(time.Duration(w.plan.dice.pick(60e9, "waits", round)))
	case errors.Is(err, orchestrator.ErrBusy), errors.Is(err, orchestrator.ErrUnavailable),
		errors.Is(err, context.DeadlineExceeded) && !begun(err):
		// it was not begun
	default:
		return false
	}
	return true
}

// begun reports whether the error of a call is about a run.
func begun(err error) bool {
	e, ok := errors.AsType[*orchestrator.Error](err)
	return ok && e.RunID != ""
}

// drain is a pass of the drain over the bots of a process.
func (w *effectWorld) drain(p *effectProcess) {
	for _, bot := range w.bots(p) {
		var due []string
		for session, err := range bot.Recoverable(p.ctx, true) {
			if err == nil {
				due = append(due, session)
			}
		}
		for _, session := range due {
			outcome, err := bot.Recover(p.ctx, session)
			w.tell("%v drains %s of %s: %s, %v", p, session, bot.Name(), outcome, brief(err))
		}
	}
}

func (w *effectWorld) bots(p *effectProcess) []*payBot {
	if p.front == p.shop {
		return []*payBot{p.shop}
	}
	return []*payBot{p.shop, p.front}
}

// abandon abandons the run in flight, perhaps while a call is at work on it.
func (w *effectWorld) abandon(p *effectProcess, request string, round int) bool {
	called := make(chan struct{})
	go func() {
		defer close(called)
		if w.plan.dice.chance(60, "abandon a call", request, round) {
			err := w.send(p, request, round)
			w.tell("the abandoned customer hears: %v", brief(err))
		}
	}()
	time.Sleep(time.Duration(w.plan.dice.pick(5e9, "abandon after", request, round)))
	w.mu.Lock()
	w.ending = true
	before := w.abandoned[request]
	w.abandoned[request] = true
	w.note("Abandon")
	w.mu.Unlock()
	ended, err := p.front.Abandon(p.ctx, "s", "")
	<-called
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = false
	w.note("Abandon has ended a run: %t, %v", ended, brief(err))
	w.abandoned[request] = before || ended || p.isDead()
	return ended
}

// desk answers for the effects that are in doubt. If nothing is, and a run waits all the same, Force ends that.
func (w *effectWorld) desk() {
	some := false
	for _, e := range w.effects(ledger.Query{Open: true}) {
		early := w.plan.dice.chance(20, "resolve of issued", w.count("issued"))
		if e.State == ledger.Unknown || w.last().isDead() || early {
			some = true
			w.answer(e)
		}
	}
	if !some {
		w.forces()
	}
}

// forces makes runs go on that only Force ends: parked ones, and those over an answered effect that nobody asks for.
func (w *effectWorld) forces() {
	p := w.replace()
	for _, bot := range w.bots(p) {
		for r, err := range bot.Runs(p.ctx) {
			if err != nil || r.Status != snapshot.Suspended && r.Status != snapshot.Parked {
				continue
			}
			w.mu.Lock()
			w.forcing = true
			w.mu.Unlock()
			_, err := bot.Resume(p.ctx, r.Session, &orchestrator.CallOptions{Force: true})
			w.tell("Force for %s of %s: %v", r.Session, bot.Name(), brief(err))
			w.mu.Lock()
			w.forcing = false
			w.mu.Unlock()
		}
	}
}

// finish lets a process that never dies finish what is in flight, with people who answer.
func (w *effectWorld) finish() {
	p := w.replace()
	for n := 0; n < 40 && len(w.broken) == 0 && !w.stopped; n++ {
		time.Sleep(20 * time.Minute)
		w.drain(p)
		if w.inFlight(p) == "" {
			break
		}
		w.desk()
	}
	if left := w.inFlight(p); left != "" && len(w.broken) == 0 && !w.stopped {
		w.mu.Lock()
		w.breaks(lawEnds, "%s", left)
		w.mu.Unlock()
	}
	_ = p.close()
	for _, p := range w.processes {
		p.cancel()
	}
	time.Sleep(2 * longestPayment)
}

// inFlight names a run that is in flight and not parked.
func (w *effectWorld) inFlight(p *effectProcess) string {
	for _, bot := range w.bots(p) {
		for r, err := range bot.Runs(p.ctx) {
			if err != nil || r.Status != snapshot.Parked && r.Status != snapshot.Ended {
				return fmt.Sprintf("run %.6s of %s is %s: %s, %v", r.ID, bot.Name(), r.Status, r.Error, err)
			}
		}
	}
	return ""
}
