package pulse

import "time"

// Options are what a Pulse has to know of a Member.
type Options struct {
	// Patience is for how long the beats of another process stand still before the process counts as stopped.
	Patience time.Duration

	// Left is for how long a process that has stopped may have left leases and locks.
	Left time.Duration

	// Calls reports whether the Member has calls, or has had one since Calls was last called.
	Calls func() bool

	// Failed is told about the second error in a row.
	Failed func(error)

	// Stays keeps the watch of other processes going, once it is, as long as one of them beats.
	Stays bool
}

// A Member is a part of this process that owns something in a database: an orchestrator, say.
type Member struct {
	pulse   *Pulse
	options Options
	watch   *watch

	// The mutex of the pulse protects the following fields.

	// over says that the Member has ended.
	over bool

	// woken says that there was a call since the pulse last asked for calls.
	woken bool

	// until is until when somebody wants to know which processes have stopped. once says that one more look is wanted.
	until time.Time
	once  bool
}

// Join returns a Member that has no calls.
func (p *Pulse) Join(o Options) *Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watches[o.Patience]
	if w == nil {
		w = &watch{patience: o.Patience, found: make(chan struct{})}
		p.watches[o.Patience] = w
	}
	return &Member{pulse: p, options: o, watch: w}
}

// Name returns the name of the process, by which its beats and leases are known.
func (m *Member) Name() string { return m.pulse.name }

// Wake begins to beat, soon. The Member has a call.
func (m *Member) Wake() {
	p := m.pulse
	if p.beater == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.over {
		return
	}
	m.woken = true
	if _, awake := p.members[m]; awake && p.timer != nil {
		return
	}
	p.members[m] = struct{}{}
	switch {
	case p.timer != nil && time.Until(p.due) <= m.watch.pace():
	case p.timer != nil:
		p.stop()
		p.set(m.watch.pace())
	case p.known: // another process may be watching beats that stand still
		p.set(0)
	default:
		p.set(p.pace() / 4) // most turns are over by then
	}
}

// Watch keeps the watch of other processes going for some seconds. It returns how many processes have been found to
// have stopped so far. If the number has grown, Stopped says which.
func (m *Member) Watch() (stops int) {
	m.pulse.mu.Lock()
	m.until = time.Now().Add(watched)
	stops = m.watch.stops
	m.pulse.mu.Unlock()
	m.Wake()
	return stops
}

// Look has the watch look once, soon. It goes on only if it has to: see Options.Stays.
func (m *Member) Look() {
	m.pulse.mu.Lock()
	m.once = true
	m.pulse.mu.Unlock()
	m.Wake()
}

// Company reports whether another process beats.
func (m *Member) Company() bool {
	m.pulse.mu.Lock()
	defer m.pulse.mu.Unlock()
	return m.company()
}

func (m *Member) company() bool {
	for name, o := range m.pulse.others {
		if name != m.pulse.name && !m.watch.dead(o) {
			return true
		}
	}
	return false
}

// Beats reports whether the store has taken a beat of this process, and has not forgotten it.
func (m *Member) Beats() bool {
	m.pulse.mu.Lock()
	defer m.pulse.mu.Unlock()
	return m.pulse.known && !m.pulse.taken.IsZero()
}

// Failing reports whether the last call to the store has failed.
func (m *Member) Failing() bool {
	m.pulse.mu.Lock()
	defer m.pulse.mu.Unlock()
	return m.pulse.failures > 0
}

// Dead returns the processes that count as stopped, and for how long each has stood still.
func (m *Member) Dead() map[string]time.Duration {
	m.pulse.mu.Lock()
	defer m.pulse.mu.Unlock()
	dead := make(map[string]time.Duration)
	for name, o := range m.pulse.others {
		if m.watch.dead(o) {
			dead[name] = time.Since(o.since)
		}
	}
	return dead
}

// Stopped returns for how long the process with a name has stood still. It is 0 if the process counts as alive.
func (m *Member) Stopped(name string) time.Duration {
	p := m.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.others[name]; o != nil && m.watch.dead(o) {
		return time.Since(o.since)
	}
	return 0
}

// Stop returns whether a process counts as stopped, and a channel that is closed when one more does.
func (m *Member) Stop() (one bool, more <-chan struct{}) {
	p := m.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.others {
		one = one || m.watch.dead(o) && time.Since(o.since) < m.options.Left // later on, its leases and locks are over
	}
	return one, m.watch.found
}

// End is for the end of the Member. If no other Member has calls, the store forgets the beats of this process.
func (m *Member) End() {
	p := m.pulse
	p.mu.Lock()
	m.over = true
	delete(p.members, m)
	p.mu.Unlock()
	p.beating.Lock()
	defer p.beating.Unlock()
	p.mu.Lock()
	last := len(p.members) == 0
	if last {
		p.stop()
	}
	p.mu.Unlock()
	if last {
		p.rest()
	}
}

// A watch is what the members with one patience know of processes that have stopped.
type watch struct {
	patience time.Duration

	// stops counts the processes that were found to have stopped.
	stops int

	// found is closed when another process is found to have stopped.
	found chan struct{}
}

// dead reports whether a process counts as stopped.
func (w *watch) dead(o *other) bool { return w.patience > 0 && o.stood >= w.patience }

// late reports whether a process may have stopped: a beat of it is late.
func (w *watch) late(o *other) bool { return !w.dead(o) && time.Since(o.since) >= w.patience*3/8 }

// pace is the time between two beats. It is a second at most, whatever the patience: other processes judge by theirs.
func (w *watch) pace() time.Duration { return min(w.patience/paces, time.Second) }

// find notes that one more process has stopped.
func (w *watch) find() {
	w.stops++
	close(w.found)
	w.found = make(chan struct{})
}
