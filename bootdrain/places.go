package bootdrain

import (
	"context"
	"sync"
	"time"
)

// A run that takes long keeps its place only for so long. It goes on, and the next one begins: a hook that hangs, or runs that wait
// for something, do not starve the others.
const placeFor = 5 * time.Second

// mostPlaces bounds what goes on beyond its time, as a multiple of Options.Concurrency.
const mostPlaces = 16

// places are for the runs that a drain works on at once.
type places struct {
	free chan struct{} // one element a free place
	all  chan struct{} // one element a run, whether it has its place or not
	jobs sync.WaitGroup
}

func newPlaces(concurrency int) *places {
	p := &places{free: make(chan struct{}, concurrency), all: make(chan struct{}, mostPlaces*concurrency)}
	for range concurrency {
		p.free <- struct{}{}
	}
	return p
}

// take waits for a free place, which run uses.
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

// run runs job in the place that was taken. However job ends, its place is given back.
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

// wait waits for all that was begun.
func (p *places) wait() { p.jobs.Wait() }
