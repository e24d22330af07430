package lock

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Processes are a [Beater] and a [Watcher] that live and die with the process. The zero value is ready.
type Processes struct {
	mu      sync.Mutex // protects following fields
	beats   map[string]beat
	watches map[watch]watcher
}

var (
	_ Beater  = (*Processes)(nil)
	_ Watcher = (*Processes)(nil)
)

// A beat is how often a process has beaten, and when it did last.
type beat struct {
	n    int64
	last time.Time
}

// A watch names a definition of an orchestrator, for which one process watches.
type watch struct{ orchestrator, definition string }

// A watcher is the process that watches, and until when.
type watcher struct {
	process string
	until   time.Time
}

// Beat implements Beater.
func (p *Processes) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	if err := checked(ctx, ValidateBeat(process)); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.beats, func(_ string, b beat) bool { return now.Sub(b.last) > Silence })
	if process != "" {
		if p.beats == nil {
			p.beats = make(map[string]beat)
		}
		b, ok := p.beats[process]
		if !ok { // another number after each rest
			b.n = now.UnixMicro()
		}
		p.beats[process] = beat{b.n + 1, now}
	}
	beats = make(map[string]int64, len(p.beats))
	for process, b := range p.beats {
		beats[process] = b.n
	}
	return beats, nil
}

// Rest implements Beater.
func (p *Processes) Rest(ctx context.Context, process string) error {
	if err := checked(ctx, ValidateRest(process)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.beats, process)
	return nil
}

// Watch implements Watcher.
func (p *Processes) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (other time.Duration, err error) {
	if err := checked(ctx, ValidateWatch(orchestrator, definition, process, d)); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := watch{orchestrator, definition}
	if now := p.watches[w]; now.process != process {
		if left := time.Until(now.until); left > 0 {
			return left, nil
		}
	}
	if p.watches == nil {
		p.watches = make(map[watch]watcher)
	}
	p.watches[w] = watcher{process, time.Now().Add(d)}
	return 0, nil
}

// checked returns an error of the arguments, or the end of ctx.
func checked(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return ctxcause.Of(ctx)
}
