package orchestrator

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/snapshot"
)

// changed returns the changes that a branch made to the state that it was given.
func (x *execution[S]) changed(start json.RawMessage, after S) (change, error) {
	before, err := decode[S](start)
	if err != nil {
		return change{}, err
	}
	return changes(before, after)
}

// saveBranches saves the branches that have finished. Such a save is progress.
func (x *execution[S]) saveBranches() error {
	saved := x.run.saved()
	parts, err := x.unsavedParts(&saved.payload)
	if err != nil {
		return err
	}
	if err := x.note(parts, func(r *snapshot.Run) { r.Attempt = 0 }); err != nil {
		return err
	}
	x.fan.stored, x.fan.unsaved = true, nil
	return nil
}

// unsavedParts returns the parts of the current fan-out that the snapshot store does not have. They are saved beside
// payload. The state and the items of the fan-out are among them only if a resume does not have them from payload.
func (x *execution[S]) unsavedParts(payload *runPayload) (map[string]json.RawMessage, error) {
	fan := x.fan
	if fan == nil || len(fan.done) == 0 {
		return nil, nil
	}
	parts := make(map[string]json.RawMessage)
	var err error
	if !fan.stored {
		decided := fan.decided
		if d := x.decision.Load(); d != nil {
			decided.Asked = d.asked
		}
		if decided.State, err = x.unsavedState(payload); err != nil {
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

// claimItems saves the run under itemsVersion before a branch runs for an item. A process that knows no items sees only
// the version of the payload, and would drop the branches. The decision is saved on the way.
func (x *execution[S]) claimItems() (err error) {
	if !x.run.inStore || x.fan.decided.Next.Each == nil || x.run.saved().payload.V >= itemsVersion {
		return nil
	}
	x.run.payload.V = itemsVersion
	x.decision.Load().into(&x.run.payload)
	parts, err := x.allParts(&x.run.payload)
	if err == nil {
		err = x.putWith(parts, func(*snapshot.Run) {})
	}
	if err == nil && parts != nil {
		x.fan.stored, x.fan.unsaved = true, nil
	}
	return err
}

// allParts is unsavedParts for a new version of the payload, which drops the parts of the last one.
func (x *execution[S]) allParts(payload *runPayload) (map[string]json.RawMessage, error) {
	if fan := x.fan; fan != nil {
		fan.stored, fan.unsaved = false, slices.Sorted(maps.Keys(fan.done))
	}
	return x.unsavedParts(payload)
}

// unsavedState returns the state of the fan-out. It returns nil if a resume has that state already: from payload, or
// from the newest turn.
func (x *execution[S]) unsavedState(payload *runPayload) (json.RawMessage, error) {
	before := payload.State
	if before == nil {
		var zero S
		if x.visit.newest != nil {
			before = x.visit.newest.State
		} else if raw, err := encode(&zero); err == nil {
			before = raw
		}
	}
	state, err := decode[S](before)
	if err != nil {
		return nil, err
	}
	c, err := x.changed(x.fan.start, state)
	if err != nil || len(c.Fields) == 0 {
		return nil, err
	}
	return x.fan.start, fits("state", x.fan.start, x.limits().State)
}
