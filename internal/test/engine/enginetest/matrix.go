package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Matrix makes the engine fail on one pair of stores. The zero value is ready.
type Matrix struct {
	// Parallel is the number of trials at once, besides trials that wait for their fault to pass. 0 means 8.
	Parallel int
	// Share is n if one in n faults of a point happens, at least one. 0 means all. A soak ignores Share.
	Share int
	// If Every is more than 1, one in so many points suffers, beginning with the point First. A soak ignores Every.
	Every, First int
	// Only names the scenarios to play. Without names, the matrix plays all.
	Only []string
	// Enough is the number of findings after which the matrix stops. 0 means 20.
	Enough int
	// Patience is the time for one trial. A trial that takes longer hangs. 0 means 20s.
	Patience time.Duration
}

// A Report says what the matrix tried and found.
type Report struct {
	// Scenarios has a line for each scenario: how many points it has, and which.
	Scenarios []string
	Points    int // points that suffered a fault
	Trials    int // trials with a fault
	Findings  []*Finding
}

// A Finding is a trial that broke a law.
type Finding struct {
	Scenario, Point, Kind, Follow string
	N                             int
	Wrong                         []Wrong
	Log                           []string // the events
}

// Error tells the whole story.
func (f *Finding) Error() string {
	var b strings.Builder
	b.WriteString(f.Headline() + ":")
	for _, w := range f.Wrong {
		fmt.Fprintf(&b, "\n  %s: %v", w.Law, w.Err)
	}
	for _, line := range f.Log {
		fmt.Fprintf(&b, "\n\t%s", line)
	}
	return b.String()
}

// Headline names the trial.
func (f *Finding) Headline() string {
	return fmt.Sprintf("%s: %s at point %d, %s, then %s", f.Scenario, f.Kind, f.N, f.Point, f.Follow)
}

// Run runs the matrix.
func (m Matrix) Run(ctx context.Context, s Stores) Report {
	chosen := slices.DeleteFunc(slices.Clone(scenarios), func(sc scenario) bool {
		return len(m.Only) > 0 && !slices.Contains(m.Only, sc.name) || sc.bot.ledger && s.Ledger == nil ||
			sc.bot.logs && s.TurnLog == nil
	})
	r := runner{Matrix: m, stores: s, slots: make(chan struct{}, cmp.Or(m.Parallel, 8))}
	points := make([][]string, len(chosen))
	for i := range chosen {
		r.start(func(s *slot) { points[i] = r.run(ctx, s, trial{scenario: &chosen[i], follow: chosen[i].follow[0]}) })
	}
	r.wg.Wait()
	var rep Report
	at, suffered := 0, make(map[string]int)
	for i, sc := range chosen {
		line := fmt.Sprintf("%s: %d: %s", sc.name, len(points[i]), strings.Join(points[i], " "))
		rep.Scenarios = append(rep.Scenarios, line)
		for _, here := range chosen[i].trials(points[i]) {
			if at++; m.Every > 1 && !soak() && (at-1)%m.Every != m.First {
				continue
			}
			if m.Share > 1 && !soak() {
				here = rarest(here, (len(here)+m.Share-1)/m.Share, suffered)
			}
			rep.Points++
			rep.Trials += len(here)
			for _, h := range here {
				r.start(func(s *slot) { r.run(ctx, s, h) })
			}
		}
	}
	r.wg.Wait()
	rep.Findings = r.findings
	return rep
}

// rarest returns n trials, and counts them. It prefers the kinds of fault that a point of that name has suffered
// least often.
func rarest(here []trial, n int, suffered map[string]int) []trial {
	fault := func(h trial) string { return h.point + " " + h.fault.kind.String() }
	slices.SortStableFunc(here, func(a, b trial) int { return cmp.Compare(suffered[fault(a)], suffered[fault(b)]) })
	for _, h := range here[:n] {
		suffered[fault(h)]++
	}
	return here[:n]
}

// trials returns the trials of all faults, by point. In a soak, each fault comes with every second process.
// Otherwise the second processes take turns.
func (sc *scenario) trials(points []string) (all [][]trial) {
	for i, name := range points {
		if !soak() && i < slices.Index(points, sc.from) {
			continue
		}
		var here []trial
		for _, k := range sc.kindsAt(name, i) {
			for _, a := range sc.follows(k, i) {
				if a.whole != nil && k.needsMiddle() {
					a = *a.whole
				}
				here = append(here, trial{scenario: sc, fault: fault{kind: k, n: i + 1}, point: name, follow: a})
			}
		}
		all = append(all, here)
	}
	return all
}

// follows returns the acts of the second process after a fault of the ith point.
func (sc *scenario) follows(k kind, i int) []act {
	follow := sc.follow
	switch {
	case soak() || sc.all:
		return follow
	// After the act, the session can only begin a new turn.
	case k.needsMiddle() && sc.act.takes():
		follow = slices.DeleteFunc(slices.Clone(follow), func(a act) bool { return a.whole == nil })
	}
	return []act{follow[(i+int(k))%len(follow)]}
}

// A runner runs trials in parallel, each in an orchestrator of its own.
type runner struct {
	Matrix
	stores Stores
	slots  chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex // protects following fields
	serial   int
	findings []*Finding
}

// A slot is the right to keep the machine busy. A trial that only waits gives its slot away.
type slot struct{ slots chan struct{} }

func (s *slot) take() { s.slots <- struct{}{} }

func (s *slot) give() { <-s.slots }

// start waits for a slot.
func (r *runner) start(f func(*slot)) {
	s := &slot{slots: r.slots}
	s.take()
	r.wg.Go(func() {
		defer s.give()
		f(s)
	})
}

func (r *runner) name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	if r.stores.Joined { // two matrices may share stores
		return fmt.Sprintf("joined-%05d", r.serial)
	}
	return fmt.Sprintf("matrix-%05d", r.serial)
}

// run runs a trial. If the machine was too slow, run repeats the trial with more time.
func (r *runner) run(ctx context.Context, s *slot, h trial) (points []string) {
	if r.enough() {
		return nil
	}
	const slowest = 16
	var w *world
	for h.slow = 1; ; h.slow *= 2 {
		w = newWorld(r.stores, r.name(), h.bot)
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Patience, 20*time.Second))
		points = h.run(ctx, w, s)
		cancel()
		if w.noise == nil {
			break
		}
		if h.slow == slowest {
			w.accuse(Healed, "%v", w.noise)
			break
		}
	}
	if len(w.wrong) > 0 {
		r.find(&Finding{h.name, h.point, h.fault.kind.String(), h.follow.name, h.fault.n, w.wrong, w.events()})
	}
	return points
}

func (r *runner) find(f *Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, f)
}

func (r *runner) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) >= cmp.Or(r.Enough, 20)
}
