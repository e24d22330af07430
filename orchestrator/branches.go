package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/snapshot"
)

// saveBranches saves the branches that have finished. Such a save is progress.
func (r *run) saveBranches(ctx context.Context) error {
	saved := r.saved()
	parts, err := r.unsavedParts(&saved.payload)
	if err != nil {
		return err
	}
	if err := r.amend(ctx, parts, func(row *snapshot.Run) { row.Attempt = 0 }); err != nil {
		return err
	}
	r.fan.stored, r.fan.unsaved = true, nil
	return nil
}

// noteBranches saves a change of the run with parts, and the branches that have finished since the last save. If no
// store accepts the branches, they run again.
func (r *run) noteBranches(
	ctx context.Context, parts map[string]json.RawMessage, change func(*snapshot.Run),
) error {
	saved := r.saved()
	branches, err := r.unsavedParts(&saved.payload)
	if err != nil {
		return errors.Join(err, r.amend(ctx, parts, change))
	}
	if branches == nil {
		return r.amend(ctx, parts, change)
	}
	maps.Copy(branches, parts)
	err = r.amend(ctx, branches, change)
	if invalid(err) {
		err = r.amend(ctx, parts, change)
	}
	return err
}

// unsavedParts returns the parts of the current fan-out that the snapshot store does not have. They are saved beside
// payload. The state and the items of the fan-out are among them only if a resume does not have them from payload.
func (r *run) unsavedParts(payload *runPayload) (map[string]json.RawMessage, error) {
	fan := r.fan
	if fan == nil || len(fan.done) == 0 {
		return nil, nil
	}
	parts := make(map[string]json.RawMessage)
	var err error
	if !fan.stored {
		decided := fan.decided
		if d := r.decision.Load(); d != nil {
			decided.Asked = d.asked
		}
		if decided.State, err = r.unsavedState(payload); err != nil {
			return nil, err
		}
		saved := payload.Next
		decided.OwnItems = decided.Next.Each != nil && (saved == nil || !saved.items.same(decided.Next.items))
		if decided.OwnItems {
			if parts[fanItems], err = decided.Next.items.encode(); err != nil {
				return nil, err
			}
		}
		if parts[fanPart], err = json.Marshal(decided); err != nil {
			return nil, err
		}
	}
	for _, i := range fan.unsaved {
		if parts[branchName(i)], err = json.Marshal(fan.done[i]); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// allParts is unsavedParts for a new version of the payload, which drops the parts of the last one.
func (r *run) allParts(payload *runPayload) (map[string]json.RawMessage, error) {
	if fan := r.fan; fan != nil {
		fan.stored, fan.unsaved = false, slices.Sorted(maps.Keys(fan.done))
	}
	return r.unsavedParts(payload)
}

// unsavedState returns the state of the fan-out. It returns nil if a resume has that state already: from payload, or
// from the newest turn.
func (r *run) unsavedState(payload *runPayload) (json.RawMessage, error) {
	before, fan := payload.State, r.fan
	if before == nil {
		before = r.before
	}
	differs, err := fan.bot.differ(fan.start, before)
	if err != nil || !differs {
		return nil, err
	}
	return fan.start, fits("state", fan.start, r.slot.engine.options.Limits.State)
}

// differ reports whether two states have a field that differs. nil is the state before the first turn.
func (o *codec[S]) differ(a, b json.RawMessage) (bool, error) {
	if b == nil {
		var zero S
		raw, err := encode(&zero)
		if err != nil {
			return false, err
		}
		b = raw
	}
	after, err := decode[S](b)
	if err != nil {
		return false, err
	}
	c, err := changed(a, after)
	return len(c.Fields) > 0, err
}

// changed returns the changes that a branch made to the state that it was given.
func changed[S any](start json.RawMessage, after S) (change, error) {
	before, err := decode[S](start)
	if err != nil {
		return change{}, err
	}
	return changes(before, after)
}
