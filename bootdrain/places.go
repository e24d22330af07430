package bootdrain

import (
	"context"
	"sync"
	"time"
)

// placeFor is the longest time that a run keeps its place. After that the run goes on without a place, and the next run
// begins. Therefore a claim that hangs, or a bot that does not say when a run is at work, does not starve other runs.
const placeFor = 5 * time.Second

// places limit the claims that a drain makes at once, and the runs that go on at once.
type places struct {
	free chan struct{} // an element for each free place
	all  chan struct{} // an element for each run, with or without a place
	jobs sync.WaitGroup
}

func newPlaces(o *Options) *places {
	p := &places{free: make(chan struct{}, o.Concurrency), all: make(chan struct{}, o.Running)}
	for range o.Concurrency {
		p.free <- struct{}{}
	}
	return p
}

// full reports whether the next take has to wait until a run has ended.
func (p *places) full() bool { return len(p.all) == cap(p.all) }

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

// run runs job in the place that take took. The place is given back when job calls atWork, after placeFor, and however
// job ends.
func (p *places) run(job func(atWork func())) {
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
		job(giveBack)
	}()
}

// wait waits for all jobs to end.
func (p *places) wait() { p.jobs.Wait() }
