package flow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// A Workflow is a definition: a name, a version and a body. In and Out are JSON values.
type Workflow[In, Out any] struct{ def *definition }

// New returns a definition. name is 1 to 48 of a-z, 0-9, '_' and '-'. Raise version when a change of the body does not
// fit the journals of runs in flight, and give NewEngine both until the old runs have ended; or guard the change with
// Patch. New panics if the name, the version or an option is invalid: they are constants of the program.
func New[In, Out any](
	name string, version int, body func(r *Run, in In) (Out, error), opts ...DefinitionOption,
) *Workflow[In, Out] {
	request := workflow.ClaimRequest{
		Process: "p", Nonce: "n", Definitions: []workflow.Definition{{Workflow: name, Version: version}},
	}
	if err := request.Validate(); err != nil {
		panic("flow: " + err.Error())
	}
	d := &definition{Definition: request.Definitions[0]}
	d.call = func(r *Run, raw json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := guard(func() error { return json.Unmarshal(raw, &in) }); err != nil {
			r.drifted(fmt.Errorf("%w: %w", errInput, err))
		}
		out, err := body(r, in)
		if err != nil {
			return nil, err
		}
		return encode("output", out)
	}
	for _, o := range opts {
		o.definitionOption(d)
	}
	err := workflow.Limit(d.limit).Validate()
	if d.deadline < 0 || d.deadline > workflow.MaxDelay {
		err = fmt.Errorf("%w: deadline of %v", workflow.ErrInvalid, d.deadline)
	}
	if err != nil {
		panic("flow: " + err.Error())
	}
	return &Workflow[In, Out]{d}
}

// A Definition is any Workflow.
type Definition interface{ definition() *definition }

func (w *Workflow[In, Out]) definition() *definition { return w.def }

// A definition is a Workflow without its types.
type definition struct {
	workflow.Definition
	keep     int           // days; 0 means the default
	deadline time.Duration // 0 means none
	limit    Limit
	call     func(r *Run, in json.RawMessage) (json.RawMessage, error)
}

// encode returns v as a store keeps it.
func encode(what string, v any) (doc json.RawMessage, err error) {
	err = guard(func() (err error) { doc, err = json.Marshal(v); return err })
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", workflow.ErrInvalid, what, err)
	}
	doc = unsigned(doc)
	return doc, workflow.ValidateValue(what, doc)
}

// unsigned returns a document whose zeros have no sign. PostgreSQL keeps none, so a value would be another one when its
// step is replayed.
func unsigned(doc json.RawMessage) json.RawMessage {
	if !bytes.Contains(doc, []byte("-0")) {
		return doc
	}
	out := make(json.RawMessage, 0, len(doc))
	quoted := false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\' && i+1 < len(doc):
			out = append(out, c)
			i++
		case c == '"':
			quoted = !quoted
		case c == '-' && !quoted && isZero(doc[i+1:]) && (i == 0 || doc[i-1]|0x20 != 'e'):
			continue
		}
		out = append(out, doc[i])
	}
	return out
}

// isZero reports whether doc begins with a number that is 0.
func isZero(doc []byte) bool {
	for _, c := range doc {
		switch {
		case '1' <= c && c <= '9':
			return false
		case c != '0' && c != '.':
			return true
		}
	}
	return true
}

// Start starts a run of w, typed. c needs no engine. The run has the version of w, and is kept as w says, unless o says
// otherwise.
func (w *Workflow[In, Out]) Start(
	ctx context.Context, c *workflow.Client, in In, o *workflow.StartOptions,
) (Handle[Out], error) {
	var with workflow.StartOptions
	if o != nil {
		with = *o
	}
	with.Version = cmp.Or(with.Version, w.def.Version)
	with.RetentionDays = cmp.Or(with.RetentionDays, w.def.keep)
	s, err := c.Start(ctx, w.def.Workflow, in, &with)
	return Handle[Out]{ID: s.ID, New: s.New, client: c}, err
}

// Handle returns the handle of a run that was started before.
func (w *Workflow[In, Out]) Handle(c *workflow.Client, run string) Handle[Out] {
	return Handle[Out]{ID: run, client: c}
}

// A Handle is a run whose output has a type.
type Handle[Out any] struct {
	ID  string
	New bool // false if the idempotency key was known

	client *workflow.Client
}

// Result waits until the run is over. A run that failed or was cancelled is a *RunError.
func (h Handle[Out]) Result(ctx context.Context) (out Out, err error) {
	r, err := h.client.Await(ctx, h.ID)
	if err != nil {
		return out, err
	}
	if r.Status != workflow.Completed {
		return out, &RunError{Run: r}
	}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		return out, fmt.Errorf("flow: the output of run %s does not decode: %w", h.ID, err)
	}
	return out, nil
}
