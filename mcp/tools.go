package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/argschema"
	"github.com/holdfast-go/holdfast/ledger"
)

// An offer is a tool of the server as the agent has it.
type offer struct {
	listed *sdk.Tool // as it was at the beginning
	tool   agent.Tool
}

// toolName is what the model APIs take as the name of a function.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

const (
	maxDescription = 16 << 10
	maxSchema      = 256 << 10
)

// fault says what is wrong with the options, whatever the server is.
func (o *Options) fault() error {
	if o.Timeout < 0 || o.StartTimeout < 0 || o.MaxResult < 0 {
		return errors.New("the options Timeout, StartTimeout and MaxResult must not be negative")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Classes)) {
		switch o.Classes[name] {
		case ledger.Ask, ledger.Verifiable, ledger.Idempotent, ledger.Pure:
		default:
			return fmt.Errorf("option Classes has an unknown class for %q", name)
		}
	}
	return nil
}

// take returns what the agent is offered, or an error that names every tool that it cannot be offered.
func (o *Options) take(listed []*sdk.Tool) (all []*offer, err error) {
	var faults []error
	known := make(map[string]bool)
	for _, t := range listed {
		known[t.Name] = true
		if o.Only != nil && !slices.Contains(o.Only, t.Name) {
			continue
		}
		f, err := o.offer(t)
		if err != nil {
			faults = append(faults, fmt.Errorf("tool %q: %w", cut(t.Name, maxName), err))
			continue
		}
		all = append(all, f)
	}
	for _, name := range slices.Concat(o.Only, slices.Sorted(maps.Keys(o.Classes))) {
		if !known[name] {
			err := fmt.Errorf("tool %q, which Only or Classes names: the server does not list it", name)
			faults = append(faults, err)
		}
	}
	return all, errors.Join(faults...)
}

// offer makes an agent's tool of a tool of the server.
func (o *Options) offer(t *sdk.Tool) (*offer, error) {
	name := o.Prefix + t.Name
	if !toolName.MatchString(name) {
		name = cut(name, maxName)
		return nil, fmt.Errorf("models take no name like %q: a name has 1 to 64 letters, digits, _ and -", name)
	}
	if len(t.Description) > maxDescription {
		return nil, fmt.Errorf("its description has more than %d bytes", maxDescription)
	}
	params, _, err := schemaOf(t)
	if err != nil {
		return nil, err
	}
	class, approved := o.class(t)
	f := &offer{t, agent.Tool{Name: name, Description: t.Description, Parameters: params, Class: class}}
	switch {
	case o.Approve != nil:
		f.tool.Wait = agent.Approval
		f.tool.When = func(args json.RawMessage) bool { return o.Approve(t.Name, args) }
	case approved:
		f.tool.Wait = agent.Approval
	}
	return f, nil
}

// class returns the class of a tool, and whether a person has to agree to it if the program says nothing.
func (o *Options) class(t *sdk.Tool) (class ledger.Class, approved bool) {
	if class, ok := o.Classes[t.Name]; ok {
		return class, false
	}
	hints := t.Annotations
	if !o.Trust || hints == nil {
		return ledger.Ask, true
	}
	destroys := hints.DestructiveHint == nil || *hints.DestructiveHint
	switch {
	case hints.ReadOnlyHint:
		return ledger.Pure, false
	case hints.IdempotentHint:
		return ledger.Idempotent, destroys
	}
	return ledger.Ask, destroys
}

// schemaOf returns the schema of the arguments.
func schemaOf(t *sdk.Tool) (doc json.RawMessage, resolved *argschema.Schema, err error) {
	doc, err = json.Marshal(t.InputSchema)
	if err != nil {
		return nil, nil, fmt.Errorf("its schema: %w", err)
	}
	if len(doc) > maxSchema {
		return nil, nil, fmt.Errorf("its schema has more than %d bytes", maxSchema)
	}
	var s *jsonschema.Schema
	if err = json.Unmarshal(doc, &s); err == nil && (s == nil || s.Type != "object") {
		err = errors.New("it is not that of an object")
	}
	if err == nil {
		resolved, err = argschema.Resolve(s)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("its schema: %w", short(err))
	}
	return doc, resolved, nil
}

// misfit says why a call cannot go to the tool as the server lists it now, or "".
func (f *offer) misfit(now *sdk.Tool, args json.RawMessage, o *Options) string {
	switch {
	case now == f.listed:
		return ""
	case now == nil:
		return "no such tool any more"
	}
	class, approved := o.class(now)
	_, was := o.class(f.listed)
	if class != f.tool.Class && f.tool.Class != ledger.Ask || approved && !was && o.Approve == nil {
		return "the tool has changed: it is not as harmless as it was"
	}
	_, resolved, err := schemaOf(now)
	if err != nil {
		return "the tool has changed: " + err.Error()
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var v any
	if err = json.Unmarshal(args, &v); err == nil {
		err = resolved.Validate(v)
	}
	if err != nil {
		return "the tool has changed, and the arguments do not fit: " + short(err).Error()
	}
	return ""
}
