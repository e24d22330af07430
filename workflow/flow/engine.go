package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// An Engine runs workflows in this process.
type Engine struct {
	store    workflow.Store
	listener workflow.Listener // nil if the store tells nothing
	beater   lock.Beater       // nil if the store has no beats
	options  Options
	defs     map[workflow.Definition]*definition
	names    []workflow.Definition
	limits   map[string]workflow.Limit // by workflow
	clocks   []*scheduled
	writer   *writer
	member   *pulse.Member

	telemeter telemeter

	wake chan struct{} // runs may be due
	plan chan struct{} // soonest has changed
	stir chan struct{} // the watch has something to do

	asking sync.Mutex // held while questions are asked; it comes before mu
	checks sync.WaitGroup

	mu         sync.Mutex // protects following fields
	idle       *sync.Cond // a stay has ended
	stays      map[string]*stay
	queue      []*stay // claimed, and not begun
	queued     time.Time
	waiters    map[string][]chan workflow.Run
	active     int
	pace       pace
	failed     time.Time // when a call to the store last failed
	called     bool      // there was a stay since the pulse asked
	soonest    time.Time
	unanswered map[string]*question
	flights    int             // claims and starts whose runs are not adopted yet
	heard      map[string]bool // the runs that were lost meanwhile, and are not known here

	up        bool // Run runs
	draining  bool // Run gives its runs back
	abandoned bool // and waits no more
	gone      chan struct{}
}

// NewEngine returns an engine of definitions. It panics if two have one name and version, or one name and different
// limits, or one workflow and schedule, or if an option is negative: the panic names all that cannot be meant.
func NewEngine(s workflow.Store, o *Options, defs ...Definition) *Engine {
	if o != nil {
		if faults := o.faults(); len(faults) > 0 {
			panic("flow: options: " + strings.Join(faults, "; "))
		}
	}
	e := &Engine{
		store: s, options: o.orDefault(), defs: make(map[workflow.Definition]*definition),
		wake: make(chan struct{}, 1), plan: make(chan struct{}, 1), stir: make(chan struct{}, 1),
		stays: make(map[string]*stay), waiters: make(map[string][]chan workflow.Run),
		unanswered: make(map[string]*question), heard: make(map[string]bool), gone: make(chan struct{}),
	}
	e.idle, e.telemeter = sync.NewCond(&e.mu), newTelemeter(&e.options)
	e.writer = &writer{store: s, most: e.options.Writers}
	e.listener, _ = s.(workflow.Listener)
	if e.beater, _ = s.(lock.Beater); e.beater == nil {
		e.options.Logger.Warn("store has no beats: a step that takes longer than the lease is taken over",
			"lease", e.options.Lease)
	}
	e.member = pulse.Of(s).Join(pulse.Options{
		Patience: e.options.DeadAfter, Left: e.options.Lease, Calls: e.calls, Stays: true,
		Failed: func(err error) { e.options.Logger.Warn("beats fail", "err", logtext.Of(err)) },
	})
	e.define(defs)
	return e
}

// define takes the definitions. That of a schedule may come twice.
func (e *Engine) define(defs []Definition) {
	keys := make(map[[2]string]bool)
	for _, d := range defs {
		def := d.definition()
		s, timed := d.(*scheduled)
		switch old := e.defs[def.Definition]; {
		case old == nil:
			e.defs[def.Definition] = def
			e.names = append(e.names, def.Definition)
		case old != def || !timed && !e.timed(def):
			panic(fmt.Sprintf("flow: workflow %q has version %d twice", def.Workflow, def.Version))
		}
		if !timed {
			continue
		}
		key := [2]string{def.Workflow, s.text}
		if keys[key] {
			panic(fmt.Sprintf("flow: workflow %q has the schedule %q twice", def.Workflow, s.text))
		}
		keys[key] = true
		e.clocks = append(e.clocks, s)
	}
	e.limits = limitsOf(e.defs)
}

// timed reports whether a definition has come with its schedule.
func (e *Engine) timed(def *definition) bool {
	return slices.ContainsFunc(e.clocks, func(s *scheduled) bool { return s.def == def })
}

// limitsOf returns the limits of definitions by the names of the workflows. It panics if two versions have different
// ones: a limit counts the runs of all versions.
func limitsOf(defs map[workflow.Definition]*definition) map[string]workflow.Limit {
	limits := make(map[string]workflow.Limit)
	for _, def := range defs {
		limits[def.Workflow] = workflow.Limit(def.limit)
	}
	for _, def := range defs {
		if limits[def.Workflow] != workflow.Limit(def.limit) {
			panic(fmt.Sprintf("flow: workflow %q has versions with different limits", def.Workflow))
		}
	}
	maps.DeleteFunc(limits, func(_ string, l workflow.Limit) bool { return l == workflow.Limit{} })
	return limits
}

// calls reports whether this process owns runs, or has since it was last asked.
func (e *Engine) calls() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	calls := e.called || len(e.stays) > 0
	e.called = false
	return calls
}

// Run claims and runs until ctx ends. Then it claims nothing more, waits Options.Grace for steps, ends their contexts,
// gives the runs back, and returns nil. A step that goes on for another Options.Grace all the same is left behind: its
// run is taken over once this process has ended, or after Options.Lease. Run is called once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.up || e.draining {
		e.mu.Unlock()
		return fmt.Errorf("%w: Run is called twice", workflow.ErrInvalid)
	}
	e.up = true
	e.mu.Unlock()

	stopped, stop := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	if e.listener != nil {
		helpers.Go(func() { e.listener.Listen(stopped, e.hear) })
	}
	helpers.Go(func() { e.watch(stopped) })
	for _, s := range e.clocks {
		helpers.Go(func() { e.keepTime(ctx, s) })
	}
	defer e.observe()()
	e.claims(ctx)
	e.drain()
	stop()
	helpers.Wait()
	e.checks.Wait()
	e.forget()
	e.member.End()
	return nil
}

// drain gives all runs back.
func (e *Engine) drain() {
	e.mu.Lock()
	e.draining, e.up = true, false
	queue := e.queue
	e.queue = nil
	e.mu.Unlock()
	var back sync.WaitGroup // which takes as long as the store is away, and not longer than this process waits
	for _, x := range queue {
		back.Go(func() { e.giveBack(x) })
	}
	defer back.Wait()
	if !e.empty(e.options.Grace) {
		e.mu.Lock()
		for _, x := range e.stays {
			x.cancel(errHandOff)
		}
		e.mu.Unlock()
		if !e.empty(e.options.Grace) {
			e.options.Logger.Error("steps do not end, and are left behind", "runs", e.here())
		}
	}
	e.mu.Lock()
	e.abandoned = true
	close(e.gone)
	e.mu.Unlock()
}

func (e *Engine) here() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.stays)
}

// empty waits until no run is here. It returns false if that takes longer than d.
func (e *Engine) empty(d time.Duration) bool {
	over := false
	t := time.AfterFunc(d, func() {
		e.mu.Lock()
		over = true
		e.idle.Broadcast()
		e.mu.Unlock()
	})
	defer t.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.active > 0 && !over {
		e.idle.Wait()
	}
	return e.active == 0
}

// giveBack gives a run back that has not begun here.
func (e *Engine) giveBack(x *stay) {
	x.over.Store(true)
	entry := workflow.Entry{Next: workflow.Park, After: soon, Mail: -1}
	err := x.write(entry)
	e.remove(x)
	if err == nil {
		e.left(x, &entry)
	}
}

// forget notes that this process has no definitions any more.
func (e *Engine) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	r := e.request(workflow.ClaimRequest{Lease: e.options.Lease})
	r.Definitions, r.Limit = nil, 0
	if _, _, err := e.store.Claim(ctx, r); err != nil {
		e.options.Logger.Warn("definitions not taken back", "err", logtext.Of(err))
	}
}

// closing reports whether this process gives its runs back.
func (e *Engine) closing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// abandons reports whether this process does not wait for the store any more.
func (e *Engine) abandons() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.abandoned
}

// pause waits for d, or until this process does not wait any more.
func (e *Engine) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.gone:
	}
}

// adopt begins runs that this process owns.
func (e *Engine) adopt(claimed []workflow.Claimed, started bool) {
	if len(claimed) == 0 {
		return
	}
	e.mu.Lock()
	var back []*stay
	for i := range claimed {
		c := &claimed[i]
		x := e.newStay(c, started || c.Fence.Epoch == 1 && c.Mail == 0)
		if e.draining {
			back = append(back, x)
			continue
		}
		e.called = true
		if old := e.stays[c.ID]; old != nil && old.fence.Epoch < x.fence.Epoch { // and no note has told it
			old.lose(lock.ErrFenced)
		}
		if e.stays[c.ID] = x; e.heard[c.ID] {
			e.checks.Go(x.check)
		}
		if e.active < e.options.Workers {
			e.active++
			go e.work(x)
			continue
		}
		if len(e.queue) == 0 {
			e.queued = time.Now()
		}
		e.queue = append(e.queue, x)
	}
	e.mu.Unlock()
	for _, x := range back {
		e.giveBack(x)
	}
	e.member.Wake()
	poke(e.stir)
}

// work runs one stay, and then what is queued.
func (e *Engine) work(x *stay) {
	for x != nil {
		x.execute()
		e.remove(x)
		e.mu.Lock()
		if e.pace.end(); len(e.queue) > 0 {
			x, e.queue = e.queue[0], e.queue[1:]
			e.queued = time.Now()
		} else {
			x = nil
			e.active--
		}
		e.idle.Broadcast()
		e.mu.Unlock()
	}
}

func (e *Engine) remove(x *stay) {
	e.mu.Lock()
	if e.stays[x.run.ID] == x {
		delete(e.stays, x.run.ID)
	}
	waiters := e.waiters[x.run.ID]
	delete(e.waiters, x.run.ID)
	e.mu.Unlock()
	if x.def != nil && x.def.limit != (Limit{}) { // there is a place again
		poke(e.wake)
		if e.listener != nil && e.closing() { // for others
			e.listener.Tell(workflow.Note{})
		}
	}
	for _, c := range waiters { // it has left this process
		close(c)
	}
}

// left tells those who wait for the run, and plans when it goes on.
func (e *Engine) left(x *stay, entry *workflow.Entry) {
	switch entry.Next {
	case workflow.Park:
		if entry.After > 0 {
			e.due(time.Now().Add(entry.After))
		}
		if !entry.Due.IsZero() {
			now := x.now()
			if now.IsZero() { // it was started here. If the clocks differ, the claim says how long it takes still
				now = time.Now()
			}
			e.due(time.Now().Add(max(entry.Due.Sub(now), 0)))
		}
	case workflow.End:
		x.ended(entry.Status)
		e.tell(x, entry)
	}
}

// tell tells those who wait for a run of this process that it is over.
func (e *Engine) tell(x *stay, entry *workflow.Entry) {
	e.mu.Lock()
	waiters := e.waiters[x.run.ID]
	delete(e.waiters, x.run.ID)
	e.mu.Unlock()
	if len(waiters) == 0 {
		return
	}
	r := x.run
	r.Status, r.Output, r.Error, r.Owner, r.Completed = entry.Status, entry.Output, entry.Error, "", x.now()
	for _, c := range waiters {
		c <- r
		close(c)
	}
}

// due notes when a run that was parked here goes on.
func (e *Engine) due(at time.Time) {
	e.mu.Lock()
	sooner := e.soonest.IsZero() || at.Before(e.soonest)
	if sooner {
		e.soonest = at
	}
	e.mu.Unlock()
	if sooner {
		poke(e.plan)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hear takes a note of the store: it looks for beats or due runs, or checks whether a run is still ours.
func (e *Engine) hear(n workflow.Note) {
	if n.Run == "" {
		if n.Beats {
			e.member.Look()
			return
		}
		poke(e.wake)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.stays[n.Run]
	if x != nil && !e.abandoned {
		e.checks.Go(x.check)
	}
	if x == nil && e.flights > 0 {
		e.heard[n.Run] = true
	}
}

// fly begins a call that may make this process the owner of runs. The caller lands once they are adopted. What is heard
// in between may be about one of them.
func (e *Engine) fly() (land func()) {
	e.mu.Lock()
	e.flights++
	e.mu.Unlock()
	return func() {
		e.mu.Lock()
		if e.flights--; e.flights == 0 {
			clear(e.heard)
		}
		e.mu.Unlock()
	}
}
