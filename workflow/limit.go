package workflow

import (
	"fmt"
	"math"
	"time"
)

// A Limit bounds the runs of a workflow over all processes, of all its versions together. A field that is 0 bounds
// nothing.
//
// A process claims by the Limit that it has. If two processes have different ones, as during a deploy, the one with the
// higher Limit may claim when the other one may not.
type Limit struct {
	// Runs is how many runs may have an owner at once. A run that sleeps, waits or will be tried again has none. When
	// it goes on, it needs a place again.
	Runs int

	// EachGroup is the same for the runs of each NewRun.Group. Runs without a group are not counted.
	EachGroup int

	// PerSecond is how many runs may begin in a second. Only the first claim of a run counts: a run that wakes goes on.
	// In any second a tenth more may begin, and one.
	PerSecond float64
}

// The bounds of a Limit.
const (
	// HeldBack is after which time a claim should be repeated at the latest if a Limit holds runs back.
	HeldBack = time.Second

	// MaxPerSecond is the greatest Limit.PerSecond, and 1 / MaxPerSecond the least.
	MaxPerSecond = 1e6
)

// Validate checks a limit.
func (l Limit) Validate() error {
	switch {
	case l.Runs < 0 || l.Runs > math.MaxInt32 || l.EachGroup < 0 || l.EachGroup > math.MaxInt32:
		return fmt.Errorf("%w: a limit of %d runs, and %d of each group", ErrInvalid, l.Runs, l.EachGroup)
	case l.PerSecond != 0 && !(l.PerSecond >= 1/MaxPerSecond && l.PerSecond <= MaxPerSecond): // also NaN
		return fmt.Errorf("%w: a limit of %v a second", ErrInvalid, l.PerSecond)
	}
	return nil
}

// The methods below are for authors of a store. Tokens are in a bucket, and each run that begins takes one.

// Most returns how many tokens the bucket holds. What is more than one lets a claim be late by a tenth of a second.
func (l Limit) Most() float64 { return 1 + l.PerSecond/10 }

// Filled returns how many tokens the bucket has that had so many some time ago. A clock may have gone back.
func (l Limit) Filled(tokens float64, ago time.Duration) float64 {
	return min(l.Most(), tokens+l.PerSecond*max(ago, 0).Seconds())
}

// Next returns when a claim that was held back should be repeated, with so many tokens in the bucket: when it has one
// again, or those of half a tenth of a second.
func (l Limit) Next(tokens float64) time.Duration {
	if l.PerSecond == 0 {
		return HeldBack
	}
	missing := max(1, l.PerSecond/20) - tokens
	if missing <= 0 { // so it is not the tokens that are missing
		return HeldBack
	}
	return min(time.Duration(missing/l.PerSecond*float64(time.Second))+time.Microsecond, HeldBack)
}

// An Admission decides which runs of a workflow a claim takes. The caller has locked the workflow against other claims,
// and counted the runs that have an owner.
type Admission struct {
	Limit

	Owned  int            // runs that have an owner
	Groups map[string]int // the same, by group
	Tokens float64        // in the bucket

	// HeldBack is set when a run was not admitted.
	HeldBack bool
}

// Admit reports whether the claim takes a run that is due, and counts it. begun says that it was claimed before.
func (a *Admission) Admit(group string, begun bool) bool {
	if a.Full() || !a.Room(group) || !begun && !a.MayBegin() {
		a.HeldBack = true
		return false
	}
	a.Owned++
	if a.Groups == nil {
		a.Groups = make(map[string]int)
	}
	a.Groups[group]++
	if !begun && a.PerSecond > 0 {
		a.Tokens--
	}
	return true
}

// Full reports whether no run is admitted.
func (a *Admission) Full() bool { return a.Runs > 0 && a.Owned >= a.Runs }

// Room reports whether there is room for a run of the group.
func (a *Admission) Room(group string) bool {
	return a.EachGroup == 0 || group == "" || a.Groups[group] < a.EachGroup
}

// MayBegin reports whether a run may begin.
func (a *Admission) MayBegin() bool { return a.PerSecond == 0 || a.Tokens >= 1 }
