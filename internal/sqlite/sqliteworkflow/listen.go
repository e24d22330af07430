package sqliteworkflow

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/workflow"
)

// A hub tells the engines of this process what happens in the store. SQLite tells other processes nothing, so they
// look from time to time. The zero value is ready.
type hub struct {
	mu    sync.Mutex // protects following field
	hears map[*func(workflow.Note)]struct{}
}

// Listen implements [workflow.Listener].
func (h *hub) Listen(ctx context.Context, hear func(workflow.Note)) {
	h.mu.Lock()
	if h.hears == nil {
		h.hears = make(map[*func(workflow.Note)]struct{})
	}
	h.hears[&hear] = struct{}{}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	delete(h.hears, &hear)
	h.mu.Unlock()
}

// Hears returns false: another process may write to the file.
func (h *hub) Hears() bool { return false }

// Tell tells the engines of this process.
func (h *hub) Tell(n workflow.Note) {
	h.mu.Lock()
	all := make([]func(workflow.Note), 0, len(h.hears))
	for hear := range h.hears {
		all = append(all, *hear)
	}
	h.mu.Unlock()
	for _, hear := range all {
		hear(n)
	}
}
