package owner

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// A pulse beats while its process has calls, and watches the beats of other processes. Safety does not rest on it: a
// process that stops without having died is fenced off like after the end of its lease.
//
// Only answers in a row count. After an error, or after a pause of this process, the watch begins anew: a store that
// was away, or a machine that stood still, makes no process look dead. A process that suspects another beats even
// without calls, and judges after its beats have been taken for a while: a store that answers and takes no writes makes
// none look dead either.
type pulse struct {
	store checkpoint.Beater // nil: the store keeps no beats, or no process is to be suspected
	name  string            // of this process

	// left is for how long a process that has stopped may have left leases and locks.
	left time.Duration

	// patience is for how long the beats of a process stand still before it counts as stopped.
	patience time.Duration

	// calls says that this process has calls, or has had one since calls was last asked. It must not be called under
	// mu.
	calls func() bool

	// failed is told about the second error in a row.
	failed func(error)

	// beating is held while beat runs. It comes before mu.
	beating sync.Mutex

	mu sync.Mutex // protects following fields

	// over says that the process has shut down.
	over bool

	// timer is of the next beat; nil if there was nothing to do when it last fired.
	timer *time.Timer

	// watchUntil is until when a caller wants to know which processes have stopped.
	watchUntil time.Time

	// known says that the store may know of beats of this process. rests counts the rests since that have failed.
	known    bool
	rests    int
	failures int       // in a row
	answered time.Time // when the last answer came; zero after an error
	others   map[string]*other

	// taken is when the store took the first of the beats that it has taken in a row; zero if the last look was none.
	taken time.Time

	// found is closed when another process is found to have stopped.
	found chan struct{}

	// stops counts the processes that were found to have stopped.
	stops int
}

// An other is another process, as its beats show it.
type other struct {
	beats int64
	since time.Time // when these beats were first seen
	looks int       // that saw them
	dead  bool
}

const (
	// paces is how many beats there are in the time after which a process counts as stopped.
	paces = 4

	// fewestLooks is how many looks in a row have to see the same beats.
	fewestLooks = 3

	// watched is how long one question is worth watching for.
	watched = 10 * time.Second

	// mostRests is how often a rest is tried that fails.
	mostRests = 60

	// mostAsked bounds a call to the store. Shutdown waits for two of them.
	mostAsked = 2 * time.Second
)

func newPulse(o *Options, calls func() bool) *pulse {
	p := &pulse{
		name: o.Name, patience: o.DeadAfter, left: o.LeaseTTL + o.DeadAfter,
		calls: calls, found: make(chan struct{}),
	}
	if o.DeadAfter > 0 {
		if p.store = o.Beater; p.store == nil {
			p.store, _ = o.Store.(checkpoint.Beater)
		}
	}
	p.failed = func(err error) {
		o.Logger.Warn("beat failed: until one succeeds, sessions change hands when their leases expire", o.Why(err))
	}
	return p
}

// wake begins to beat, soon.
func (p *pulse) wake() {
	if p.store == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.timer != nil {
		return
	}
	soon := p.pace() / 4 // most turns are over by then
	if p.known {         // another process may be watching beats that stand still
		soon = 0
	}
	p.timer = time.AfterFunc(soon, p.beat)
}

// watch keeps the watch of other processes going for a while, and returns how many have been found to have stopped.
func (p *pulse) watch() (stops int) {
	p.mu.Lock()
	p.watchUntil = time.Now().Add(watched)
	stops = p.stops
	p.mu.Unlock()
	p.wake()
	return stops
}

// stopped returns for how long the process with a name has stood still. It is 0 if the process counts as alive.
func (p *pulse) stopped(name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.others[name]; o != nil && o.dead {
		return time.Since(o.since)
	}
	return 0
}

// stop returns whether a process counts as stopped, and a channel that is closed when one more does.
func (p *pulse) stop() (one bool, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.others {
		one = one || o.dead && time.Since(o.since) < p.left // later on, its leases and locks are over
	}
	return one, p.found
}

// beat is called by the timer.
func (p *pulse) beat() {
	p.beating.Lock()
	defer p.beating.Unlock()
	calls := p.calls()
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return
	}
	watching := time.Now().Before(p.watchUntil)
	beats := calls || watching && p.suspects()
	p.mu.Unlock()
	if !beats {
		p.rest()
	}
	if beats || watching {
		p.look(beats)
	}

	p.mu.Lock()
	p.timer = nil
	again := calls || watching || p.known // a rest that failed is repeated
	if again && !p.over {
		p.timer = time.AfterFunc(p.pause(), p.beat)
	}
	p.mu.Unlock()
	if !again && p.calls() { // wake has found the timer
		p.wake()
	}
}

// pause is the time to the next beat. One that failed is soon repeated: others may be waiting for it. If a process is
// suspected, the next look comes when its time is up. The caller holds mu.
func (p *pulse) pause() time.Duration {
	if p.failures == 1 {
		return p.pace() / 4
	}
	pause := p.pace()
	for _, o := range p.others {
		if left := p.patience - time.Since(o.since); left > 0 && !o.dead {
			pause = min(pause, left)
		}
	}
	return pause
}

// pace is the time between two beats. It is a second at most, whatever the patience of this process: others judge it by
// theirs.
func (p *pulse) pace() time.Duration { return min(p.patience/paces, time.Second) }

// end is for the end of the process: its beats are forgotten, and none comes any more.
func (p *pulse) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.beating.Lock()
	defer p.beating.Unlock()
	p.rest()
}

// suspects reports whether another process may have stopped: a beat of it is late. The caller holds mu.
func (p *pulse) suspects() bool {
	for _, o := range p.others {
		if !o.dead && time.Since(o.since) >= p.patience*3/8 {
			return true
		}
	}
	return false
}

// look looks at the beats of the others. If beats is true, this process beats too.
func (p *pulse) look(beats bool) {
	name := ""
	if beats {
		name = p.name
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(p.patience/2, mostAsked))
	defer cancel()
	sent := time.Now()
	seen, err := p.store.Beat(ctx, name)

	p.mu.Lock()
	if beats && (err == nil || !Definite(err)) {
		p.known, p.rests = true, 0
	}
	if err != nil {
		p.answered, p.taken, p.others = time.Time{}, time.Time{}, nil
		p.failures++
		second := p.failures == 2
		p.mu.Unlock()
		if second {
			p.failed(err) // which may be a program's own code
		}
		return
	}
	defer p.mu.Unlock()
	if p.note(seen, sent, beats); beats || !p.suspects() {
		p.failures = 0 // a look alone does not show that the store takes beats
	}
}

// note compares the beats with those of the look before. The request for them was sent at sent, and wrote says that the
// store took a beat with it.
func (p *pulse) note(beats map[string]int64, sent time.Time, wrote bool) {
	now := time.Now()
	if sent.Sub(p.answered) > p.patience*3/4 { // this process has stood still, or has just begun to look
		p.others = nil
	}
	p.answered = now
	switch {
	case !wrote:
		p.taken = time.Time{}
	case p.taken.IsZero():
		p.taken = now
	}
	// If the store has just begun to take beats again, those of the others have yet to come.
	judges := wrote && sent.Sub(p.taken) >= p.patience*3/8
	if p.others == nil {
		p.others = make(map[string]*other)
	}
	maps.DeleteFunc(p.others, func(name string, _ *other) bool { _, ok := beats[name]; return !ok })
	for name, n := range beats {
		o := p.others[name]
		if o == nil || o.beats != n || name == p.name {
			p.others[name] = &other{beats: n, since: now, looks: 1}
			continue
		}
		o.looks++
		if judges && !o.dead && o.looks >= fewestLooks && sent.Sub(o.since) >= p.patience {
			o.dead = true
			p.stops++
			close(p.found)
			p.found = make(chan struct{})
		}
	}
}

// rest makes the store forget the beats of this process: they stand still because it has no calls.
func (p *pulse) rest() {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(p.patience/2, mostAsked))
	defer cancel()
	err := p.store.Rest(ctx, p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests++
	if err == nil || p.rests >= mostRests {
		p.known = false // else the next call beats at once
	}
}
