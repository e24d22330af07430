package chaostest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// A Report is the outcome of a history.
type Report struct {
	Seed       uint64
	Wrong      []Wrong
	Tally      Tally
	simulation *simulation
}

// History lists the calls, the trouble in the network, and the answers to callers, by step.
func (r *Report) History() string { return r.simulation.events() }

// String returns the seed and the broken laws.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\n%s", r.Seed, r.Tally, r.History())
	for _, wrong := range r.Wrong {
		fmt.Fprintln(&b, wrong)
	}
	return b.String()
}

// Broke reports whether the history broke one of some laws.
func (r *Report) Broke(laws ...string) bool {
	for _, wrong := range r.Wrong {
		for _, law := range laws {
			if wrong.Law == law {
				return true
			}
		}
	}
	return false
}

// Play plays the history of a seed on empty stores in memory. The same seed makes the same history.
func Play(t *testing.T, s Stores, seed uint64) (r *Report) {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, v))
		}
	}()
	synctest.Test(t, func(*testing.T) { r = play(s, seed, bubbleClock(), "chaos") })
	return r
}

// PlayOnServers plays a history on any stores, in real time. Each history on the same stores needs a name of its own.
func PlayOnServers(s Stores, seed uint64, name string) *Report {
	return play(s, seed, wallClock(), name)
}

func play(s Stores, seed uint64, c clock, name string) *Report {
	w := newWorld(s, seed, c, name)
	w.play()
	w.heal()
	w.judge()
	w.tally.Histories, w.tally.Steps = 1, w.step
	return &Report{seed, w.wrong, w.tally, w}
}
