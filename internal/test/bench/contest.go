package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An operation is one unit of the measured work. The calls of one worker follow each other.
type operation func(ctx context.Context, worker int) error

// A subject is measured in a contest.
type subject struct {
	name string
	op   operation
	// The zero goal is always met.
	goal goal

	each int64 // how many units an operation is; 0 means 1
}

// A contest compares subjects with a reference. All take turns in every round, forwards and backwards. So a drift of
// the machine favours none of them.
type contest struct {
	// what is the same for all subjects. A subject's name follows.
	what      string
	workers   int
	reference subject
	subjects  []subject
	between   func(ctx context.Context) error // between rounds; may be nil
	meter     meter                           // nil: the time of the processor is not measured
}

// A sample is the result of one round: operations per second, allocations and allocated bytes of one operation, and the
// nanoseconds of processors that one took. amount is of what is no operation.
type sample struct{ reference, rate, allocs, bytes, referenceWork, work, amount float64 }

// A result is one line of the report.
type result struct {
	what, reference string
	workers         int
	goal            goal
	samples         []sample
}

// compete measures a contest and adds its results.
func (b *bench) compete(ctx context.Context, c contest) error {
	all := append([]subject{c.reference}, c.subjects...)
	samples := make([][]sample, len(all))
	// The first round warms up caches and prepares statements.
	for round := range b.rounds + 1 {
		if c.between != nil {
			if err := c.between(ctx); err != nil {
				return err
			}
		}
		tallies, err := b.playRound(ctx, all, &c)
		if err != nil {
			return err
		}
		for i, t := range tallies {
			if round > 0 {
				samples[i] = append(samples[i], sample{
					reference: tallies[0].rate(), rate: t.rate(), allocs: t.each(t.allocs), bytes: t.each(t.bytes),
					referenceWork: tallies[0].each(tallies[0].work), work: t.each(t.work),
				})
			}
		}
	}
	for i, s := range c.subjects {
		b.add(result{c.what + ": " + s.name, c.reference.name, c.workers, s.goal, samples[1+i]})
	}
	return nil
}

// playRound returns the tally of each subject.
func (b *bench) playRound(ctx context.Context, all []subject, c *contest) ([]tally, error) {
	tallies := make([]tally, len(all))
	for slice := range b.slices {
		for i := range all {
			if slice%2 == 1 {
				i = len(all) - 1 - i
			}
			t, err := repeat(ctx, c.workers, b.round/time.Duration(b.slices), all[i].op, c.meter)
			if err != nil {
				return nil, fmt.Errorf("%s, %d workers: %w", all[i].name, c.workers, err)
			}
			t.done *= max(all[i].each, 1)
			tallies[i].add(t)
		}
	}
	return tallies, nil
}

func (b *bench) add(r result) {
	b.log("  %s, %d workers: %s", r.what, r.workers, r.goal.measured(r))
	b.results = append(b.results, r)
}

// A tally says how often an operation was done, how long this took, and how much was allocated.
type tally struct {
	done          int64
	took          time.Duration
	allocs, bytes uint64
	work          uint64 // nanoseconds of processors
}

func (t *tally) add(u tally) {
	t.done += u.done
	t.took += u.took
	t.allocs += u.allocs
	t.bytes += u.bytes
	t.work += u.work
}

func (t tally) rate() float64 { return float64(t.done) / t.took.Seconds() }

// each returns the share of one operation.
func (t tally) each(all uint64) float64 { return float64(all) / float64(t.done) }

// allocations returns how many allocations this process has made, and of how many bytes.
func allocations() (n, bytes uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs, m.TotalAlloc
}

// repeat makes every worker repeat op for a while. m may be nil.
func repeat(ctx context.Context, workers int, d time.Duration, op operation, m meter) (tally, error) {
	// The garbage of other subjects must not cost this subject time.
	runtime.GC()
	n0, bytes0 := allocations()
	used0 := m.read()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for worker := range workers {
		wg.Go(func() {
			for more := true; more; more = time.Since(start) < d {
				if err := op(ctx, worker); err != nil {
					cancel(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	work := m.read().since(used0)
	n1, bytes1 := allocations()
	return tally{n.Load(), took, n1 - n0, bytes1 - bytes0, work}, context.Cause(ctx)
}

// median returns the median of f over the samples.
func (r result) median(f func(sample) float64) float64 {
	values := r.sorted(f)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func (r result) sorted(f func(sample) float64) []float64 {
	values := make([]float64, len(r.samples))
	for i, s := range r.samples {
		values[i] = f(s)
	}
	slices.Sort(values)
	return values
}
