package faulttest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func TestSnapshotModelConvicts(t *testing.T) {
	for name, broken := range map[string]func(*snapshot.Memory) snapshot.Store{
		"forgets fences":  func(m *snapshot.Memory) snapshot.Store { return forgetsFences{m} },
		"fences Adopt":    func(m *snapshot.Memory) snapshot.Store { return adoptsLow{m} },
		"adopts nothing":  func(m *snapshot.Memory) snapshot.Store { return adoptsNothing{m} },
		"deletes unknown": func(m *snapshot.Memory) snapshot.Store { return deletesUnknown{m} },
		"replaces parts":  func(m *snapshot.Memory) snapshot.Store { return replacesParts{m} },
		"merges parts":    func(m *snapshot.Memory) snapshot.Store { return mergesParts{m} },
		"stays paused":    func(m *snapshot.Memory) snapshot.Store { return staysPaused{m} },
		"never pauses":    func(m *snapshot.Memory) snapshot.Store { return neverPauses{m} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 100 {
				if err := followSnapshotModel(t.Context(), broken(&snapshot.Memory{Remember: 1}), seed,
					60); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("not convicted")
		})
	}
}

func TestSnapshotModelAcquitsMemory(t *testing.T) {
	for seed := range 100 {
		if err := followSnapshotModel(t.Context(), new(snapshot.Memory), seed, 60); err != nil {
			t.Error(err)
		}
	}
}

// followSnapshotModel makes n random calls and returns the first difference. The seed fixes the calls.
func followSnapshotModel(ctx context.Context, s snapshot.Store, seed, n int) error {
	type result struct{ err error }
	return rapid.Custom(func(t *rapid.T) result {
		p := newPair(s)
		for range n {
			if err := p.call(ctx, t); err != nil {
				return result{err}
			}
		}
		return result{p.sameRuns(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: p.bot}})}
	}).Example(seed).err
}

func inFlight(ctx context.Context, m *snapshot.Memory, k snapshot.Key) snapshot.Run {
	for r, err := range m.Runs(ctx, snapshot.Query{Key: k}) {
		if err == nil {
			return r
		}
	}
	return snapshot.Run{}
}

// forgetsFences forgets the fence of a session without a run.
type forgetsFences struct{ *snapshot.Memory }

func (s forgetsFences) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	others() // Remember is a nanosecond
	if _, err := s.Sweep(ctx, 0); err != nil {
		return nil, err
	}
	return s.Memory.Begin(ctx, r)
}

// adoptsLow says that no run is in flight before it checks the fence.
type adoptsLow struct{ *snapshot.Memory }

func (s adoptsLow) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	if inFlight(ctx, s.Memory, k).ID == "" {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	return s.Memory.Adopt(ctx, k, f, attempts)
}

// adoptsNothing forgets the fence if there is no run to adopt.
type adoptsNothing struct{ *snapshot.Memory }

func (s adoptsNothing) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := s.Memory.Adopt(ctx, k, f, attempts)
	if errors.Is(err, snapshot.ErrNotFound) {
		others() // Remember is a nanosecond
		if _, err := s.Sweep(ctx, 0); err != nil {
			return snapshot.Run{}, err
		}
	}
	return r, err
}

// deletesUnknown checks only the fence of its own run.
type deletesUnknown struct{ *snapshot.Memory }

func (s deletesUnknown) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if inFlight(ctx, s.Memory, k).ID != id {
		return nil
	}
	return s.Memory.Delete(ctx, k, id, f)
}

// replacesParts replaces all parts by the parts of a Save without Payload.
type replacesParts struct{ *snapshot.Memory }

func (s replacesParts) Save(ctx context.Context, r snapshot.Run) error {
	if r.Payload == nil {
		r.Payload = inFlight(ctx, s.Memory, r.Key).Payload
	}
	return s.Memory.Save(ctx, r)
}

// mergesParts keeps the old parts beside a new Payload.
type mergesParts struct{ *snapshot.Memory }

func (s mergesParts) Save(ctx context.Context, r snapshot.Run) error {
	if in := inFlight(ctx, s.Memory, r.Key); in.ID == r.ID && in.Fence == r.Fence {
		old, err := s.Adopt(ctx, r.Key, r.Fence, 0)
		if err != nil {
			return err
		}
		all := maps.Clone(old.Parts)
		if all == nil {
			all = make(map[string]json.RawMessage)
		}
		maps.Copy(all, r.Parts)
		r.Parts = all
	}
	return s.Memory.Save(ctx, r)
}

// staysPaused keeps the old pause if a Save has none.
type staysPaused struct{ *snapshot.Memory }

func (s staysPaused) Save(ctx context.Context, r snapshot.Run) error {
	if r.Pause == 0 {
		r.Pause = inFlight(ctx, s.Memory, r.Key).Pause
	}
	return s.Memory.Save(ctx, r)
}

// neverPauses begins every run without its pause.
type neverPauses struct{ *snapshot.Memory }

func (s neverPauses) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r.Pause = 0
	return s.Memory.Begin(ctx, r)
}
