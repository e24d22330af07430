package orchestrator

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// mergeFields is how branches become one state if the definition does not say: each top-level field is what the branch that
// changed it made of it. A state that is no JSON object is one field.
func mergeFields(base json.RawMessage, branches []json.RawMessage) (json.RawMessage, error) {
	before, ok := fields(base)
	if !ok {
		return mergeWhole(base, branches)
	}
	merged, changed := make(map[string]json.RawMessage), make(map[string]bool)
	for name, value := range before {
		merged[name] = value
	}
	for _, b := range branches {
		after, ok := fields(b)
		if !ok {
			return mergeWhole(base, branches)
		}
		for name := range union(before, after) {
			if bytes.Equal(before[name], after[name]) {
				continue
			}
			if changed[name] && !bytes.Equal(merged[name], after[name]) {
				return nil, fmt.Errorf("%w: %q", ErrMerge, name)
			}
			merged[name], changed[name] = after[name], true
		}
	}
	for name, value := range merged {
		if value == nil {
			delete(merged, name)
		}
	}
	return json.Marshal(merged)
}

func mergeWhole(base json.RawMessage, branches []json.RawMessage) (json.RawMessage, error) {
	merged := base
	for _, b := range branches {
		switch {
		case bytes.Equal(b, base):
		case !bytes.Equal(merged, base) && !bytes.Equal(merged, b):
			return nil, fmt.Errorf("%w: the state", ErrMerge)
		default:
			merged = b
		}
	}
	return merged, nil
}

// fields returns the members of an object that json.Marshal wrote, whose values are equal if and only if their bytes are.
func fields(doc json.RawMessage) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(doc, &members)
	return members, err == nil && members != nil
}

func union(a, b map[string]json.RawMessage) map[string]struct{} {
	all := make(map[string]struct{}, len(a)+len(b))
	for name := range a {
		all[name] = struct{}{}
	}
	for name := range b {
		all[name] = struct{}{}
	}
	return all
}
