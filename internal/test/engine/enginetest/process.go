package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A process is a bot on stores. Its calls to the stores, and the functions of the bot, are points.
type process struct {
	*world
	name     string
	volatile bool   // no snapshot store
	failing  string // the intent that fails
	// apart: the process settles a turn and deletes the run in two steps, even if the stores are joined.
	apart  bool
	fault  fault
	settle time.Duration // SettleTimeout; 0: the default
	ttl    time.Duration // LeaseTTL; 0: the default

	// deadAfter is Limits.DeadAfter; 0: the process neither beats nor suspects another.
	deadAfter time.Duration

	quit    context.CancelFunc // its caller gives up
	idle    func()             // called when the fault waits
	stalled chan struct{}      // closed at the stop
	done    chan struct{}      // closed when its call returned
	// hold is closed when the process may go on, and so may functions that ignore their contexts.
	hold      chan struct{}
	amid      func(run string) // called during its turns
	functions sync.WaitGroup   // functions under way

	mu      sync.Mutex // protects following fields
	points  []string
	hit     string // the faulty point, or ""
	waiting bool   // the fault takes time
	// unaware: the process stopped, and no store has answered since. A branch that starts now cannot know more.
	unaware  bool
	began    string // the run that it began
	requests []func()
	gates    map[string]*gate // by run
}

func (w *world) process(name string, f fault) *process {
	return &process{
		world: w, name: name, fault: f, quit: func() {}, idle: func() {}, amid: func(string) {},
		stalled: make(chan struct{}), done: make(chan struct{}), hold: make(chan struct{}),
		gates: make(map[string]*gate),
	}
}

// arrive returns the fault of a point. A dead process has no further points.
func (p *process) arrive(name string) kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadLocked() {
		return die
	}
	p.points = append(p.points, name)
	switch {
	case p.hit != "" && p.fault.kind.lasts() && !isFunction(name):
		return p.fault.kind
	case p.hit != "" || !p.fault.hits(p.points):
		return nothing
	}
	p.hit = name
	if name == "Deliver" || name == "mark" || p.fault.kind.stops() || p.fault.kind.lasts() {
		p.redeliver()
	}
	switch p.fault.kind {
	case die:
		p.quit()
	case doze, stall:
		p.unaware = true
		for _, g := range p.gates {
			g.unaware = g.unaware || g.begun // c has checked the session, and may start late
		}
	}
	return p.fault.kind
}

func (p *process) deadLocked() bool { return p.hit != "" && p.fault.kind == die }

func (p *process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadLocked()
}

// suffered returns the point of the fault, or "" if the fault has not come.
func (p *process) suffered() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit
}

// wantHit returns an error unless the fault has come.
func (p *process) wantHit() error {
	if p.suffered() == "" {
		return fmt.Errorf("%s has not come to %s", p.name, p.fault.name)
	}
	return nil
}

// passed returns the points so far.
func (p *process) passed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.points)
}

// wait notes that the fault takes time from here on.
func (p *process) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waiting {
		p.waiting = true
		p.idle()
	}
}

// waited reports whether the fault has taken time.
func (p *process) waited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// stop waits until the process may go on.
func (p *process) stop() {
	close(p.stalled)
	<-p.hold
}

// isVolatile reports whether a turn leaves no trace when the process ends.
func (p *process) isVolatile() bool { return p.volatile || p.bot.volatile }

// isUnaware reports whether the process cannot know that it has lost the session.
func (p *process) isUnaware() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unaware
}

func (p *process) learns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unaware = false
}

// ask makes a call to a store.
func ask[T any](
	ctx context.Context, p *process, name string, call func(context.Context) (T, error),
) (answer T, err error) {
	k := p.arrive(name)
	defer func() { p.note("%s: %s: %s: %v", p.name, name, k, err) }()
	if !isUnfenced(name) {
		defer p.learns()
	}
	switch k {
	case before:
		return answer, errFault
	case down:
		p.wait()
		return answer, errFault
	case after:
		_, _ = call(context.WithoutCancel(ctx))
		return answer, errFault
	case mute:
		p.wait()
		_, _ = call(context.WithoutCancel(ctx))
		return answer, errFault
	case late, amid, later:
		p.send(func() {
			_, err := call(context.WithoutCancel(ctx))
			p.note("%s: %s arrives: %v", p.name, name, err)
		})
		return answer, errFault
	case twice:
		p.send(func() {
			_, err := call(context.WithoutCancel(ctx))
			p.note("%s: a copy of %s arrives: %v", p.name, name, err)
		})
	case hang:
		if name == "claim" || name == "steal" {
			p.quit()
		}
		p.wait()
		<-ctx.Done()
		return answer, ctx.Err()
	case leave:
		p.quit()
	case doze, stall:
		p.stop()
		ctx = context.WithoutCancel(ctx) // the request may be on its way
	case die:
		return answer, errDead
	}
	return call(ctx)
}

// tell is ask for a call that returns only an error.
func tell(ctx context.Context, p *process, name string, call func(context.Context) error) error {
	_, err := ask(ctx, p, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// read begins a sequence.
func (p *process) read(ctx context.Context, name string) (err error) {
	k := p.arrive(name)
	defer func() { p.note("%s: %s: %s: %v", p.name, name, k, err) }()
	switch k {
	case nothing:
	case leave:
		p.quit()
	case hang:
		p.quit()
		p.wait()
		<-ctx.Done()
		return ctx.Err()
	case doze, stall:
		p.stop()
		p.learns()
	case die:
		return errDead
	default:
		return errFault
	}
	return nil
}

// send puts a request on its way.
func (p *process) send(request func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, request)
}

// goOn lets a stopped process continue, and functions that ignore their contexts. It delivers the late requests of the
// process and waits for its end.
func (p *process) goOn() {
	close(p.hold)
	<-p.done
	p.functions.Wait()
	for _, request := range p.requests {
		request()
	}
}

// function runs do, the effect of a function of the bot, for a run.
func (p *process) function(ctx context.Context, run, name string, do func() error) (err error) {
	p.functions.Add(1)
	defer p.functions.Done()
	k := p.arrive(name)
	defer func() { p.note("%s: %s: %s: %v", p.name, name, k, err) }()
	if name != "Begin" && name != "Deliver" {
		p.amid(run)
	}
	switch k {
	case before:
		return errFault
	case after:
		return errors.Join(do(), errFault)
	case late, amid, later:
		p.quit()
		p.wait()
		<-p.hold
	case hang:
		p.quit()
		p.wait()
		<-ctx.Done()
		return ctx.Err()
	case leave:
		p.quit()
	case doze, stall:
		p.stop()
	case die:
		return errDead
	}
	return do()
}
