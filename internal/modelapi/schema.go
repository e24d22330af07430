package modelapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
)

// Rules say which tools an API takes.
type Rules struct {
	Most   int      // tools; 0 is any number
	Unions []string // members that a schema must not have at its top
}

// Check returns an error that names each tool that the API would refuse, or nil.
func (r Rules) Check(tools []agent.Tool) error {
	var all []error
	if r.Most > 0 && len(tools) > r.Most {
		all = append(all, fmt.Errorf("%d tools, and the API takes %d", len(tools), r.Most))
	}
	for _, t := range tools {
		s, err := Schema(t)
		for _, name := range r.Unions {
			if s[name] != nil {
				err = errors.Join(err, fmt.Errorf("its Parameters have %s at the top, which the API refuses", name))
			}
		}
		if err != nil {
			all = append(all, fmt.Errorf("tool %q: %w", t.Name, err))
		}
	}
	return errors.Join(all...)
}

// Schema returns the members of the schema of a tool: type and properties at least, which some APIs want to see.
func Schema(t agent.Tool) (map[string]json.RawMessage, error) {
	s := make(map[string]json.RawMessage)
	if len(t.Parameters) > 0 {
		if err := json.Unmarshal(t.Parameters, &s); err != nil {
			return nil, fmt.Errorf("its Parameters: %w", err)
		}
	}
	switch kind := string(s["type"]); kind {
	case "":
		s["type"] = json.RawMessage(`"object"`)
	case `"object"`:
	default:
		return s, fmt.Errorf("its Parameters are of type %s, and APIs take an object", kind)
	}
	if s["properties"] == nil {
		s["properties"] = json.RawMessage("{}")
	}
	return s, nil
}

// strictMembers are what a schema may have that vendors hold a model to. They take more, and not the same.
var strictMembers = []string{
	"type", "properties", "required", "additionalProperties", "items", "enum", "const", "description", "anyOf",
}

// Strict reports whether vendors can hold a model to the schema: each object names all its members, requires them, and
// allows no others.
func Strict(schema json.RawMessage) bool {
	var s map[string]json.RawMessage
	return json.Unmarshal(schema, &s) == nil && s["anyOf"] == nil && string(s["type"]) == `"object"` && strict(schema)
}

func strict(schema json.RawMessage) bool {
	var members map[string]json.RawMessage
	var s struct {
		Type       any
		Properties map[string]json.RawMessage
		Required   []string
		Additional json.RawMessage `json:"additionalProperties"`
		Items      json.RawMessage
		AnyOf      []json.RawMessage
	}
	if json.Unmarshal(schema, &members) != nil || json.Unmarshal(schema, &s) != nil {
		return false
	}
	for name := range members {
		if !slices.Contains(strictMembers, name) {
			return false
		}
	}
	if strings.Contains(string(members["type"]), `"object"`) {
		if string(s.Additional) != "false" || len(s.Required) != len(s.Properties) {
			return false
		}
	} else if s.Additional != nil || s.Properties != nil {
		return false
	}
	below := s.AnyOf
	if s.Items != nil {
		below = append(below, s.Items)
	}
	for _, p := range s.Properties {
		below = append(below, p)
	}
	return !slices.ContainsFunc(below, func(s json.RawMessage) bool { return !strict(s) })
}

// Args returns the arguments of a call, as APIs want them.
func Args(c message.Call) string {
	if len(c.Args) == 0 {
		return "{}"
	}
	return string(c.Args)
}
