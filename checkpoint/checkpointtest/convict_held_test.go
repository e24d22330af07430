package checkpointtest_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// These stores name the wrong sessions as held.
func TestSuiteConvictsHeld(t *testing.T) {
	convict(t, map[string]conviction{
		"Held knows settled sessions only": {"held", func() store { return heldIsSettled{newMutant()} }},
		"Held looks at no time":            {"held", func() store { return heldForEver{newMutant()} }},
		"Held returns all that it knows":   {"held", func() store { return heldUnasked{newMutant()} }},
		"Held checks nothing":              {"held", func() store { return heldUnchecked{newMutant()} }},
		"Held names no owner":              {"held", func() store { return heldByNobody{newMutant()} }},
	})
}

type heldIsSettled struct{ mutant }

func (h heldIsSettled) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	held, err := h.Memory.Held(ctx, orchestrator, sessions)
	maps.DeleteFunc(held, func(id, _ string) bool {
		_, err := checkpoint.Load(ctx, h, checkpoint.Key{Orchestrator: orchestrator, Session: id}, checkpoint.Newest)
		return err != nil
	})
	return held, err
}

type heldByNobody struct{ mutant }

func (h heldByNobody) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	held, err := h.Memory.Held(ctx, orchestrator, sessions)
	for id := range held {
		held[id] = ""
	}
	return held, err
}

// heldForEver reports every session that was ever claimed as held.
type heldForEver struct{ mutant }

func (h heldForEver) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (held map[string]string, err error) {
	held, err = h.Memory.Held(ctx, orchestrator, sessions)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range sessions {
		if _, ok := h.current[checkpoint.Key{Orchestrator: orchestrator, Session: id}]; ok {
			held[id] = "suite"
		}
	}
	return held, err
}

type heldUnasked struct{ mutant }

func (h heldUnasked) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	h.mu.Lock()
	for k := range h.current {
		if k.Orchestrator == orchestrator && !slices.Contains(sessions, k.Session) {
			sessions = append(sessions, k.Session)
		}
	}
	h.mu.Unlock()
	return h.Memory.Held(ctx, orchestrator, sessions)
}

type heldUnchecked struct{ mutant }

func (h heldUnchecked) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	return h.Memory.Held(ctx, orchestrator, slices.DeleteFunc(sessions, func(id string) bool { return id == "" }))
}
