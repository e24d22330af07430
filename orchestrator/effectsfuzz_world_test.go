package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// longestPayment is the longest time that the vendor takes, and slowVendor the OnceOptions.Settles for it.
const (
	longestPayment = 90 * time.Second
	slowVendor     = 2 * time.Minute
)

// An entry of the vendor's book is a payment that was made, or that is on its way.
type entry struct {
	key, order, run, receipt string

	// episode is how often the run had ended before.
	episode int
	lands   time.Time
}

// A runNote is what is known of a run from outside.
type runNote struct {
	request string // of the customer, when the run began
	ended   int    // how often it was saved as ended
	settled bool
	// asked are the orders that the functions of a process have called Once for, by process.
	asked map[*effectProcess]map[string]bool
	// swallowed are the orders whose doubt a function has kept to itself. got are those for which Once has returned a
	// receipt.
	swallowed, got map[string]bool
}

// An effectWorld is what outlives a process, and what a judge from outside knows.
type effectWorld struct {
	world
	plan   *effectPlan
	cures  effectCures
	ledger ledger.Ledger
	bare   *ledger.Memory // what the judge reads
	t      *testing.T
	began  time.Time

	mu        sync.Mutex // protects following fields
	counts    map[string]int
	book      []entry
	runs      map[string]*runNote
	answered  map[string]bool // keys for which a person said that it landed
	abandoned map[string]bool // requests
	sessions  map[string]bool // that have had a run
	request   string
	forcing   bool
	ending    bool // an Abandon is under way
	story     []string
	broken    []string // laws
	stopped   bool     // a call went round without end

	processes []*effectProcess
}

func newEffectWorld(t *testing.T, p *effectPlan, c effectCures) *effectWorld {
	w := &effectWorld{
		world: newWorld(), plan: p, cures: c, bare: new(ledger.Memory), t: t, began: time.Now(),
		counts: make(map[string]int), runs: make(map[string]*runNote), answered: make(map[string]bool),
		abandoned: make(map[string]bool), sessions: make(map[string]bool),
	}
	w.ledger = w.bare
	if c.ledger != nil {
		w.ledger = c.ledger(w.bare)
	}
	if c.snapshots != nil {
		w.Snapshots = c.snapshots(w.Snapshots)
	}
	return w
}

func (w *effectWorld) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
	return w.counts[what] - 1
}

// tell adds to the story.
func (w *effectWorld) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// note is tell for a caller that holds mu.
func (w *effectWorld) note(format string, args ...any) {
	at := time.Since(w.began).Round(time.Millisecond)
	w.story = append(w.story, fmt.Sprintf("%10v  ", at)+fmt.Sprintf(format, args...))
}

// breaks notes that a law is broken. The caller holds mu.
func (w *effectWorld) breaks(law, format string, args ...any) {
	text := law + ": " + fmt.Sprintf(format, args...)
	w.note("BROKEN  %s", text)
	w.broken = append(w.broken, text)
}

// runNote returns what is known of a run. The caller holds mu.
func (w *effectWorld) runNote(id string) *runNote {
	r := w.runs[id]
	if r == nil {
		r = &runNote{
			request: w.request, asked: make(map[*effectProcess]map[string]bool),
			swallowed: make(map[string]bool), got: make(map[string]bool),
		}
		w.runs[id] = r
	}
	return r
}

// intentOf names a run of a function.
func (w *effectWorld) intentOf(t *payTurn, order string) string {
	return fmt.Sprintf("the function for %s in iteration %d of %.6s", order, t.Iteration, t.RunID)
}

func brief(err error) string {
	if err == nil {
		return "no error"
	}
	return logtext.Line(err.Error())
}

// effects returns the effects of a run, or of all runs.
func (w *effectWorld) effects(q ledger.Query) (all []ledger.Effect) {
	for e, err := range w.bare.Effects(context.Background(), q) {
		if err == nil {
			all = append(all, e)
		}
	}
	return all
}

// An effectProcess runs the bots of a deploy until it dies.
type effectProcess struct {
	w           *effectWorld
	number      int
	deploy      int
	kill        kill
	shop, front *payBot // the customer talks to front
	ctx         context.Context
	cancel      context.CancelFunc

	mu     sync.Mutex // protects following fields
	passed int
	dead   bool
}

func (p *effectProcess) String() string { return fmt.Sprintf("process %d", p.number) }

// start starts a process of a deploy. Processes after the last that may die live on.
func (w *effectWorld) start(deploy int) *effectProcess {
	n := len(w.processes)
	p := &effectProcess{w: w, number: n, deploy: deploy}
	if n < w.plan.kills && deploy != bothNames {
		p.kill = kill{1 + w.plan.dice.pick(24, "kill", n), w.plan.dice.chance(50, "kill after", n)}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	o := Options{
		Snapshots: faulttest.Snapshots(w.Snapshots, p.reaches), Ledger: faulttest.Ledger(w.ledger, p.reaches),
		Logger: quiet(), Limits: orchestrator.Limits{Attempts: 12},
	}
	stores := faulttest.Checkpoints(w.Checkpoints, p.reaches)
	var err error
	if p.shop, err = orchestrator.New(p.definition(), stores, &o); err != nil {
		w.t.Fatal(err)
	}
	if p.front = p.shop; w.plan.tool {
		if p.front, err = orchestrator.New(p.parent(), stores, &o); err != nil {
			w.t.Fatal(err)
		}
	}
	w.processes = append(w.processes, p)
	w.tell("%v starts, of deploy %d with names %v, silent %t", p, deploy, w.plan.bases(deploy), w.plan.silent(deploy))
	return p
}

// uncounted are the calls at which no process dies: how often they come depends on random pauses of the engine.
var uncounted = []string{"Claim", "Renew", "Held", "Beat", "Rest", "Head", "Sessions", "Turns", "Runs"}

// reaches is the Around of the stores. A dead process reaches nothing. A fence ends it at once. Finish knows no fence.
func (p *effectProcess) reaches(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
	gone := lock.ErrFenced
	if c.Method == "Finish" {
		gone = errDead
	}
	if p.isDead() {
		return gone
	}
	alive := slices.Contains(uncounted, c.Method) ||
		p.survives(strings.TrimSpace(c.Method+" "+string(c.Status)+string(c.Outcome)))
	if !alive && !p.kill.after {
		return gone
	}
	err := next(ctx)
	if err == nil {
		p.w.written(p, c)
	}
	if !alive {
		return gone
	}
	return err
}

// survives counts a step, and reports whether the process lives after it.
func (p *effectProcess) survives(step string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed++
	if p.passed == p.kill.step && !p.dead {
		p.dead = true
		p.cancel()
		p.w.tell("%v DIES at step %d, %s, after it: %t", p, p.passed, step, p.kill.after)
	}
	return !p.dead
}

func (p *effectProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// asks notes that a function has called Once.
func (p *effectProcess) asks(run, order string) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	r := p.w.runNote(run)
	if r.asked[p] == nil {
		r.asked[p] = make(map[string]bool)
	}
	r.asked[p][order] = true
}

// swallows notes that a function keeps doubt to itself.
func (p *effectProcess) swallows(run, order string) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.runNote(run).swallowed[order] = true
}

// gets notes that Once has returned a receipt.
func (p *effectProcess) gets(run, order string) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.runNote(run).got[order] = true
}

// What the vendor says.
const (
	vendorOK      = "says ok"
	vendorTimeout = "times out"
	vendorNo      = "declines"
	vendorPanics  = "panics"
	vendorExits   = "exits by Goexit"
	vendorNever   = "never answers"
)

// calls is the call of the vendor in Once.
func (p *effectProcess) calls(ctx context.Context, key, order string) (string, error) {
	w, d := p.w, p.w.plan.dice
	if p.isDead() {
		return "", errDead
	}
	alive := p.survives("the call of the vendor")
	if !alive && !p.kill.after {
		return "", errDead
	}
	n := w.count("vendor " + order)
	pays, latency, says := true, time.Duration(d.pick(1e6, "latency", order, n)), vendorOK
	if n < w.plan.trouble {
		pays = d.chance(70, "pays", order, n)
		if d.chance(40, "slow", order, n) {
			latency += time.Duration(d.pick(int(longestPayment)-1e6, "slow by", order, n))
		}
		from := []string{vendorOK, vendorOK, vendorTimeout, vendorPanics, vendorExits, vendorNever}
		if !pays {
			from = []string{vendorNo, vendorNo, vendorTimeout, vendorPanics, vendorExits, vendorNever}
		}
		says = from[d.pick(len(from), "says", order, n)]
		if says == vendorNever && w.plan.timeout == 0 {
			says = vendorTimeout
		}
	}
	receipt := ""
	if pays {
		receipt, latency = w.pays(key, order, latency)
	}
	w.tell("%v calls the vendor for %s (%.6s): it pays %t, after %v, and %s", p, order, key, pays, latency, says)
	if !alive {
		return "", errDead
	}
	return p.hears(ctx, says, receipt, latency, d.chance(25, "deaf", order, n))
}

// hears waits for the answer of the vendor. A client that is deaf knows no context.
func (p *effectProcess) hears(
	ctx context.Context, says, receipt string, latency time.Duration, deaf bool,
) (string, error) {
	over := ctx.Done()
	if deaf && says != vendorNever {
		over = nil
	}
	answer := time.After(latency)
	if says == vendorNever {
		answer = nil
	}
	select {
	case <-answer:
	case <-over:
		return "", ctx.Err()
	case <-p.ctx.Done():
		return "", errDead
	}
	switch says {
	case vendorTimeout:
		return "", errTimeout
	case vendorNo:
		return "", ledger.NotDone(errDeclined)
	case vendorPanics:
		panic("in the client of the vendor")
	case vendorExits:
		runtime.Goexit()
	}
	return receipt, nil
}

// pays books a payment, and judges it: an order is paid once. A vendor that honours keys books a key once.
func (w *effectWorld) pays(key, order string, latency time.Duration) (receipt string, lands time.Duration) {
	effects := w.effects(ledger.Query{ID: key})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan.class == ledger.Idempotent {
		for _, e := range w.book {
			if e.key == key {
				return e.receipt, max(0, time.Until(e.lands))
			}
		}
	}
	e := entry{
		key: key, order: order, receipt: fmt.Sprintf("receipt %d for %s", len(w.book)+1, order),
		lands: time.Now().Add(latency),
	}
	if len(effects) != 1 {
		w.breaks("an effect is issued before it happens", "the ledger has %d effects of key %s", len(effects), key)
		return e.receipt, latency
	}
	e.run = effects[0].RunID
	e.episode = w.runNote(e.run).ended
	w.judgePayment(e)
	w.book = append(w.book, e)
	return e.receipt, latency
}

// finds answers Verify. A payment that is on its way is not found.
func (p *effectProcess) finds(key string) (receipt string, landed bool, err error) {
	if p.isDead() {
		return "", false, errDead
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, e := range p.w.book {
		if e.key == key && !time.Now().Before(e.lands) {
			receipt, landed = e.receipt, true
		}
	}
	p.w.note("%v asks the vendor about %.6s: landed %t", p, key, landed)
	return receipt, landed, nil
}

// answer answers for an effect, as the desk: truthfully, once no payment is on its way. Sometimes two people answer.
func (w *effectWorld) answer(e ledger.Effect) {
	d, n := w.plan.dice, w.count("answer")
	a := ledger.Answer{By: "ann", Sure: w.last().isDead()}
	w.mu.Lock()
	onItsWay := false
	for _, paid := range w.book {
		if paid.key == e.ID {
			onItsWay = onItsWay || time.Now().Before(paid.lands)
			a.Landed = true
			a.Result, _ = json.Marshal(paid.receipt)
		}
	}
	w.mu.Unlock()
	if onItsWay {
		return
	}
	a.Skip = !a.Landed && d.chance(15, "skip", n)
	people := []string{"ann"}
	if d.chance(25, "two people", n) {
		people = append(people, "bob")
	}
	errs := make([]error, len(people))
	var all sync.WaitGroup
	for i, by := range people {
		mine := a
		mine.By = by
		all.Go(func() { errs[i] = ledger.Resolve(context.Background(), w.ledger, e.ID, mine) })
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else if !errors.Is(err, ledger.ErrAnswered) && !errors.Is(err, lock.ErrHeld) {
			w.breaks("of two answers one is taken", "%v", err)
		}
	}
	w.note("the desk answers for %.6s: landed %t, skip %t, sure %t, by %v: %v",
		e.ID, a.Landed, a.Skip, a.Sure, people, errs)
	if taken > 1 {
		w.breaks("of two answers one is taken", "%d were", taken)
	}
	w.answered[e.ID] = w.answered[e.ID] || a.Landed && taken > 0
}
