package retry_test

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/retry"
)

const longest = time.Duration(math.MaxInt64)

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy retry.Policy
		waits  []time.Duration // after 1, 2, … failures
	}{
		{"fixed", retry.Fixed(4, 5), []time.Duration{5, 5, 5}},
		{"linear", retry.Linear(4, 5), []time.Duration{5, 10, 15}},
		{"exponential", retry.Exponential(5, 5), []time.Duration{5, 10, 20, 40}},
		{"fixed negative", retry.Fixed(2, -1), []time.Duration{0}},
		{"linear negative", retry.Linear(3, -1), []time.Duration{0, 0}},
		{"exponential negative", retry.Exponential(3, -1), []time.Duration{0, 0}},
		{"exponential zero", retry.Exponential(3, 0), []time.Duration{0, 0}},
		{"capped", retry.Exponential(5, 5).Max(15), []time.Duration{5, 10, 15, 15}},
		{"capped twice", retry.Linear(5, 5).Max(15).Max(10), []time.Duration{5, 10, 10, 10}},
		{"capped at nothing", retry.Fixed(3, 5).Max(0), []time.Duration{0, 0}},
		{"capped below nothing", retry.Fixed(3, 5).Max(-1), []time.Duration{0, 0}},
		{"no wait, capped", retry.Policy{Attempts: 3}.Max(5), []time.Duration{0, 0}},
		{"no wait, spread", retry.Policy{Attempts: 3}.Jitter(), []time.Duration{0, 0}},
		{"longest", retry.Linear(3, longest), []time.Duration{longest, longest}},
		{"longest doubled", retry.Exponential(3, longest/2+1), []time.Duration{longest/2 + 1, longest}},
		{"own negative wait", retry.Policy{Wait: func(int) time.Duration { return -5 }}.Jitter(), []time.Duration{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			for i := range c.waits {
				waits = append(waits, c.policy.Wait(i+1))
			}
			if !slices.Equal(waits, c.waits) {
				t.Errorf("waits %v, want %v", waits, c.waits)
			}
		})
	}
}

// For every attempt and unit, the wait is the exact product or the longest Duration.
func TestNoOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		failed := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, math.MaxInt)).Draw(t, "failed")

		unit := big.NewInt(max(int64(d), 0))
		linear := new(big.Int).Mul(unit, big.NewInt(int64(failed)))
		if got := retry.Linear(1, d).Wait(failed); got != capped(linear) {
			t.Errorf("linear waits %d, want %d", got, capped(linear))
		}
		exponential := new(big.Int).Lsh(unit, uint(min(failed-1, 64)))
		if got := retry.Exponential(1, d).Wait(failed); got != capped(exponential) {
			t.Errorf("exponential waits %d, want %d", got, capped(exponential))
		}
	})
}

func capped(n *big.Int) time.Duration {
	if !n.IsInt64() {
		return longest
	}
	return time.Duration(n.Int64())
}

// A count below 1 is a caller's mistake. The mistake costs at most the first wait.
func TestUnusualCounts(t *testing.T) {
	for _, failed := range []int{math.MinInt, -1, 0} {
		for _, p := range []retry.Policy{retry.Fixed(3, 5), retry.Linear(3, 5), retry.Exponential(3, 5)} {
			if got := p.Wait(failed); got != 5 {
				t.Errorf("after %d failures it waits %d", failed, got)
			}
		}
	}
}

func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		if got := retry.Fixed(2, d).Jitter().Wait(1); got < 0 || got > d {
			t.Errorf("waits %d of %d", got, d)
		}
	})
}

// Jitter reaches both ends, and the middle is no likelier than the rest.
func TestJitterSpreads(t *testing.T) {
	p := retry.Fixed(2, 3).Jitter()
	var seen [4]int
	const draws = 40_000
	for range draws {
		seen[p.Wait(1)]++
	}
	for wait, n := range seen {
		if n < draws/4-1000 || n > draws/4+1000 { // more than ten standard deviations
			t.Errorf("waited %d in %d of %d draws", wait, n, draws)
		}
	}
}

func TestAttemptsAreKept(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.Fixed(3, 1), retry.Linear(3, 1), retry.Exponential(3, 1),
		retry.Fixed(3, 1).Jitter(), retry.Fixed(3, 1).Max(1),
	} {
		if p.Attempts != 3 {
			t.Errorf("%d attempts", p.Attempts)
		}
	}
}

func TestSpread(t *testing.T) {
	p := retry.Exponential(3, time.Second).Max(time.Minute).Spread(0.2)
	seen := make(map[time.Duration]bool)
	for range 1000 {
		for failed, d := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 9: time.Minute} {
			wait := p.Wait(failed)
			if wait < d*8/10 || wait > d*12/10 {
				t.Fatalf("after %d failures %v", failed, wait)
			}
			seen[wait] = true
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d different pauses", len(seen))
	}
	for name, p := range map[string]retry.Policy{
		"no pause": {Attempts: 3}, "none": retry.Fixed(3, time.Second).Spread(0), "too much": retry.Fixed(3, 0).Spread(7),
	} {
		if got := p.Spread(0).Attempts; got != 3 {
			t.Errorf("%s: %d attempts", name, got)
		}
	}
	if got := retry.Fixed(2, math.MaxInt64).Spread(1).Wait(1); got < 0 {
		t.Errorf("the longest pause becomes %v", got)
	}
	if got := (retry.Policy{}).Spread(0.5).Wait(1); got != 0 {
		t.Errorf("no pause becomes %v", got)
	}
}
