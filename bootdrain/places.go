package bootdrain

import (
	"context"
	"sync"
	"time"
)

// placeFor is how long a run keeps its place. After that the run goes on without a place, and the next run begins.
// Therefore a hook that hangs, or runs that wait, do not starve other runs.
const placeFor = 5 * time.Second

// mostPlaces bounds the runs that go on at once, with or without a place, as a multiple of Options.Concurrency.
const mostPlaces = 16

// places limit the runs that a drain works on at once.
type places struct {
	free chan struct{} // an element for each free place
	all  chan struct{} // an element for each run
	jobs sync.WaitGroup
}

func newPlaces(concurrency int) *places {
	p := &places{free: make(chan struct{}, concurrency), all: make(chan struct{}, mostPlaces*concurrency)}
	for range concurrency {
		p.free <- struct{}{}
	}
	return p
}

// take waits for a free place. The next call of run uses the place.
func (p *places) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-p.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case p.all <- struct{}{}:
		return nil
	case <-ctx.Done():
		p.free <- struct{}{}
		return context.Cause(ctx)
	}
}

// run runs job in the place that take took. However job ends, run gives the place back.
func (p *places) run(job func()) {
	var once sync.Once
	giveBack := func() { once.Do(func() { p.free <- struct{}{} }) }
	late := time.AfterFunc(placeFor, giveBack)
	p.jobs.Add(1)
	go func() {
		defer p.jobs.Done()
		defer func() {
			late.Stop()
			giveBack()
			<-p.all
		}()
		job()
	}()
}

// wait waits for all jobs to end.
func (p *places) wait() { p.jobs.Wait() }
