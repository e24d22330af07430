package turnlog

import (
	"fmt"
	"maps"
	"sync"
)

// A Registry knows the phases that may be recorded: the five canonical ones, and those that are registered. It is not
// global, so two bots may have two. Its methods may be called concurrently.
type Registry struct {
	mu     sync.RWMutex // protects following field
	phases map[string]string
}

// NewRegistry returns a Registry of the canonical phases.
func NewRegistry() *Registry {
	return &Registry{phases: map[string]string{
		Started:        "the run is recorded, and nothing of the bot but Begin has run",
		LLMComplete:    "a model has answered",
		ToolDispatched: "a tool was called",
		ToolReceived:   "the result of a tool has arrived",
		Settled:        "the turn is over: complete, cancelled, timeout or error",
	}}
}

// Register adds a phase. The same phase with the same description again does nothing. With another description it is an
// error, and nothing changes. So a canonical phase cannot be changed.
func (r *Registry) Register(phase, description string) error {
	if err := checkPhase(phase); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.phases[phase]
	if ok && known != description {
		return fmt.Errorf("turnlog: phase %q is registered with another description", phase)
	}
	r.phases[phase] = description
	return nil
}

// Phases returns the phases with their descriptions.
func (r *Registry) Phases() map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.phases)
}

// knows reports whether a phase may be recorded.
func (r *Registry) knows(phase string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.phases[phase]
	return ok
}
