package retry

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// A Policy says how often work is tried and how long to wait between attempts. The zero Policy tries once. A Policy may
// be used concurrently.
type Policy struct {
	// Attempts is the number of attempts, the first included. Less than 1 means 1.
	Attempts int

	// Wait returns the pause before the next attempt, after failed ≥ 1 attempts. nil means no pause.
	Wait func(failed int) time.Duration
}

// Fixed waits d each time. In this package, a negative d means 0.
func Fixed(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(int) time.Duration { return max(d, 0) }}
}

// Linear waits d, 2d, 3d, and so on, up to the longest Duration.
func Linear(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(failed int) time.Duration { return times(d, uint64(max(failed, 1))) }}
}

// Exponential waits d, 2d, 4d, and so on, up to the longest Duration. [Policy.Max] sets a lower bound on the wait.
func Exponential(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(failed int) time.Duration { return times(d, 1<<min(max(failed, 1)-1, 63)) }}
}

// Jitter waits a random time from 0 to the wait of p. Callers that failed together then do not come back together.
// Cap before spreading: p.Max(d).Jitter() uses all of d, but p.Jitter().Max(d) often waits exactly d.
func (p Policy) Jitter() Policy {
	return Policy{p.Attempts, func(failed int) time.Duration {
		return time.Duration(rand.Uint64N(uint64(p.wait(failed)) + 1))
	}}
}

// Spread waits as long as p, give or take a part of that: with a part of 0.2, 80 to 120 %. In contrast to Jitter it
// keeps the rhythm of p. A part is between 0 and 1.
func (p Policy) Spread(part float64) Policy {
	part = min(max(part, 0), 1)
	return Policy{p.Attempts, func(failed int) time.Duration {
		d := float64(p.wait(failed)) * (1 - part + 2*part*rand.Float64()) //nolint:gosec // it need not be secret
		if d >= math.MaxInt64 {
			return math.MaxInt64
		}
		return time.Duration(d)
	}}
}

// Max waits like p, but never longer than d.
func (p Policy) Max(d time.Duration) Policy {
	return Policy{p.Attempts, func(failed int) time.Duration { return min(p.wait(failed), max(d, 0)) }}
}

func (p Policy) wait(failed int) time.Duration {
	if p.Wait == nil {
		return 0
	}
	return max(p.Wait(failed), 0)
}

// times returns n·d. If n·d is too long for a Duration, times returns the longest Duration.
func times(d time.Duration, n uint64) time.Duration {
	hi, lo := bits.Mul64(uint64(max(d, 0)), n)
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(lo)
}
