// Package pulse shows in a database that this process is alive, and finds out which other processes have stopped.
//
// A process has one Pulse in a database: one name, one beat a second, and one watch of the others, for all that it owns
// there. The parts of the process that own something are its members. Their leases name the process as it beats.
package pulse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// A Pulse beats while a member has calls, and watches the beats of other processes. Safety does not rest on it: a
// process that stops without having died is fenced off like after the end of its lease.
//
// Only answers in a row count. After an error, or after a pause of this process, the watch begins anew: a store that
// was away, or a machine that stood still, makes no process look dead. A process that suspects another beats even
// without calls, and judges after its beats have been taken for a while: a store that answers and takes no writes makes
// none look dead either.
type Pulse struct {
	beater lock.Beater // nil: no process beats, and none is to be suspected
	name   string      // of this process

	// beating is held while beat runs. It comes before mu.
	beating sync.Mutex

	mu sync.Mutex // protects following fields

	// members are the members that have calls, or watch. After the last of them has none, they stay until the store
	// has forgotten the beats.
	members map[*Member]struct{}

	// watches are those of all members, by their patience.
	watches map[time.Duration]*watch

	// patience is the least of the members, as of when there was one.
	patience time.Duration

	// timer is of the next beat, which is due at due. It is nil if there was nothing to do when it last fired. timers
	// counts them: one that has fired may find that another was set meanwhile.
	timer  *time.Timer
	due    time.Time
	timers int

	// known says that the store may know of beats of this process. rests counts the rests since that have failed.
	known    bool
	rests    int
	failures int       // in a row
	answered time.Time // when the last answer came; zero after an error
	others   map[string]*other

	// taken is when the store took the first of the beats that it has taken in a row; zero if the last look was none.
	taken time.Time
}

// An other is another process, as its beats show it.
type other struct {
	beats int64
	since time.Time // when these beats were first seen
	looks int       // that saw them

	// stood is for how long the process has certainly stood still. A watch that has no more patience takes it for dead.
	stood time.Duration
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

// New returns a Pulse with a name of its own. If b is nil, it neither beats nor watches.
func New(b lock.Beater) *Pulse {
	host, _ := os.Hostname()
	return Named(b, fmt.Sprintf("%.64s/%d/%s", strings.ToValidUTF8(host, "?"), os.Getpid(), rand.Text()[:8]))
}

// Named returns a Pulse with a name, which must be unique for each start of a process.
func Named(b lock.Beater, name string) *Pulse {
	return &Pulse{
		beater: b, name: name,
		members: make(map[*Member]struct{}), watches: make(map[time.Duration]*watch),
	}
}

// set sets the timer. The caller holds mu.
func (p *Pulse) set(pause time.Duration) {
	p.due = time.Now().Add(pause)
	p.timers++
	timer := p.timers
	p.timer = time.AfterFunc(pause, func() { p.beat(timer) })
}

// stop stops the timer. The caller holds mu.
func (p *Pulse) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.timers++
}

// beat is called by a timer.
func (p *Pulse) beat(timer int) {
	p.beating.Lock()
	defer p.beating.Unlock()
	work, ok := p.ask(timer)
	if !ok {
		return
	}
	if !work.beats {
		p.rest()
	}
	if work.beats || work.watches {
		p.look(work.beats)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next(work)
}

// work is what there is to do in one beat.
type work struct {
	// members says of each member whether it has calls, or watches.
	members map[*Member]bool
	calls   bool
	watches bool
	beats   bool
}

// ask finds out what there is to do. It returns false if the timer has been replaced.
func (p *Pulse) ask(timer int) (w work, ok bool) {
	p.mu.Lock()
	if timer != p.timers {
		p.mu.Unlock()
		return w, false
	}
	w.members = make(map[*Member]bool, len(p.members))
	for m := range p.members {
		m.woken = false
		w.members[m] = false
	}
	p.mu.Unlock()
	for m := range w.members {
		w.members[m] = m.options.Calls() // which may wait for a member that waits for mu
		w.calls = w.calls || w.members[m]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.beats = w.calls
	for m := range w.members {
		if !m.once && !time.Now().Before(m.until) {
			continue
		}
		m.once = false
		w.members[m], w.watches = true, true
		w.beats = w.beats || p.suspects(m.watch)
	}
	return w, true
}

// next sets the timer of the next beat, and lets the members go that have nothing to do. The caller holds mu.
func (p *Pulse) next(w work) {
	p.timer = nil
	woken := false
	for m := range p.members {
		woken = woken || m.woken // it has found the timer
	}
	busy := w.calls || w.watches
	if busy || woken || !p.known {
		maps.DeleteFunc(p.members, func(m *Member, _ struct{}) bool { return !w.members[m] && !m.woken })
	}
	switch {
	case len(p.members) == 0:
	case busy, p.known: // a rest that failed is repeated
		p.set(p.pause())
	default:
		p.set(p.pace() / 4)
	}
}

// least returns the least patience of the members. The caller holds mu.
func (p *Pulse) least() time.Duration {
	first := true
	for m := range p.members {
		if first || m.watch.patience < p.patience {
			p.patience = m.watch.patience
		}
		first = false
	}
	return p.patience
}

// pace is the time between two beats. The caller holds mu.
func (p *Pulse) pace() time.Duration { return (&watch{patience: p.least()}).pace() }

// pause is the time to the next beat. One that failed is soon repeated: others may be waiting for it. If a process is
// suspected, the next look comes when its time is up. The caller holds mu.
func (p *Pulse) pause() time.Duration {
	pause := p.pace()
	if p.failures == 1 {
		return pause / 4
	}
	for m := range p.members {
		for _, o := range p.others {
			if left := m.watch.patience - time.Since(o.since); left > 0 && !m.watch.dead(o) {
				pause = min(pause, left)
			}
		}
	}
	return pause
}

// suspects reports whether another process may have stopped. The caller holds mu.
func (p *Pulse) suspects(w *watch) bool {
	for _, o := range p.others {
		if w.late(o) {
			return true
		}
	}
	return false
}

// bounded returns the context of a call to the store.
func (p *Pulse) bounded() (context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return context.WithTimeout(context.Background(), min(p.least()/2, mostAsked))
}

// look looks at the beats of the others. If beats is true, this process beats too.
func (p *Pulse) look(beats bool) {
	name := ""
	if beats {
		name = p.name
	}
	ctx, cancel := p.bounded()
	defer cancel()
	sent := time.Now()
	seen, err := p.beater.Beat(ctx, name)

	p.mu.Lock()
	defer p.mu.Unlock()
	if beats && !store.IsVerdict(err) && !errors.Is(err, store.ErrRefused) { // else it was not counted
		p.known, p.rests = true, 0
	}
	if err != nil {
		p.fail(err)
		return
	}
	p.note(seen, sent, beats)
	for m := range p.members {
		if m.options.Stays && m.company() {
			m.until = time.Now().Add(watched)
		}
	}
	suspects := false
	for m := range p.members {
		suspects = suspects || p.suspects(m.watch)
	}
	if beats || !suspects {
		p.failures = 0 // a look alone does not show that the store takes beats
	}
}

// fail begins the watch anew. The caller holds mu, which is free while the members are told.
func (p *Pulse) fail(err error) {
	p.answered, p.taken, p.others = time.Time{}, time.Time{}, nil
	p.failures++
	if p.failures != 2 {
		return
	}
	told := slices.Collect(maps.Keys(p.members))
	p.mu.Unlock()
	defer p.mu.Lock()
	for _, m := range told {
		m.options.Failed(err) // which may be a program's own code
	}
}

// note compares the beats with those of the look before. The request for them was sent at sent, and wrote says that the
// store took a beat with it.
func (p *Pulse) note(beats map[string]int64, sent time.Time, wrote bool) {
	now := time.Now()
	if sent.Sub(p.answered) > p.least()*3/4 { // this process has stood still, or has just begun to look
		p.others = nil
	}
	p.answered = now
	switch {
	case !wrote:
		p.taken = time.Time{}
	case p.taken.IsZero():
		p.taken = now
	}
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
		if o.looks++; wrote && o.looks >= fewestLooks {
			p.judge(o, sent)
		}
	}
}

// judge notes for how long a process has stood still by a look that was sent at sent. If the store has just begun to
// take beats again, those of the others have yet to come. So a watch judges after beats were taken for 3/8 of its
// patience.
func (p *Pulse) judge(o *other, sent time.Time) {
	stood := min(sent.Sub(o.since), sent.Sub(p.taken)*8/3)
	for _, w := range p.watches {
		if stood >= w.patience && w.patience > 0 && !w.dead(o) {
			w.find()
		}
	}
	o.stood = max(o.stood, stood)
}

// rest makes the store forget the beats of this process: they stand still because it has no calls.
func (p *Pulse) rest() {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if !known {
		return
	}
	ctx, cancel := p.bounded()
	defer cancel()
	err := p.beater.Rest(ctx, p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests++
	if err == nil || p.rests >= mostRests {
		p.known = false // else the next call beats at once
	}
}
