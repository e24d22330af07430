package retry

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"
)

// A Policy says how often something is tried and how long to wait between. The zero Policy tries once. It may be used
// concurrently.
type Policy struct {
	Attempts int                            // in all, the first included; less than 1 means 1
	Wait     func(failed int) time.Duration // before the next, after failed ≥ 1 attempts; nil means at once
}

// Fixed waits d each time. Here and below, a negative d means 0.
func Fixed(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(int) time.Duration { return max(d, 0) }}
}

// Linear waits d, 2d, 3d, and so on, up to the longest Duration.
func Linear(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(failed int) time.Duration { return times(d, uint64(max(failed, 1))) }}
}

// Exponential waits d, 2d, 4d, and so on, up to the longest Duration; see [Policy.Max].
func Exponential(attempts int, d time.Duration) Policy {
	return Policy{attempts, func(failed int) time.Duration { return times(d, 1<<min(max(failed, 1)-1, 63)) }}
}

// Jitter waits any time from 0 to the wait of p, so that those who failed together do not come back together.
// Cap before spreading: p.Max(d).Jitter() uses all of d, p.Jitter().Max(d) often waits exactly d.
func (p Policy) Jitter() Policy {
	return Policy{p.Attempts, func(failed int) time.Duration {
		return time.Duration(rand.Uint64N(uint64(p.wait(failed)) + 1))
	}}
}

// Max waits as p does, but never longer than d.
func (p Policy) Max(d time.Duration) Policy {
	return Policy{p.Attempts, func(failed int) time.Duration { return min(p.wait(failed), max(d, 0)) }}
}

func (p Policy) wait(failed int) time.Duration {
	if p.Wait == nil {
		return 0
	}
	return max(p.Wait(failed), 0)
}

// times returns n·d, or the longest Duration if that is longer.
func times(d time.Duration, n uint64) time.Duration {
	hi, lo := bits.Mul64(uint64(max(d, 0)), n)
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(lo)
}
