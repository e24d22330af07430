package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-go/holdfast/internal/argschema"
	"github.com/holdfast-go/holdfast/ledger"
)

// toolName is what the model APIs take as the name of a function.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// maxOtherwise is how many bytes of Tool.Otherwise may be in a state, for each call that waits.
const maxOtherwise = 4 << 10

// typed returns a tool whose arguments are an In.
func typed[In any](name, description string) Tool {
	t := Tool{Name: name, Description: description}
	s, err := jsonschema.For[In](nil)
	if err == nil && s.Type != "object" {
		err = errors.New("its arguments are no struct")
	}
	if err == nil {
		t.Parameters, err = json.Marshal(s)
	}
	if err == nil {
		t.schema, err = argschema.Resolve(s)
	}
	t.fault = err
	return t
}

// prepare checks a tool, and resolves the schema of one that was made by hand.
func (t *Tool) prepare(finish bool) error {
	n := 0
	for _, set := range []bool{t.Run != nil, t.Child != nil, t.Wait == Client, finish} {
		if set {
			n++
		}
	}
	switch {
	case t.fault != nil:
		return t.fault
	case !toolName.MatchString(t.Name):
		return errors.New("a name has 1 to 64 letters, digits, _ and -")
	case n != 1:
		return errors.New("exactly one of Run, Child and Wait Client says what it does")
	case t.Wait != "" && t.Wait != Client && t.Wait != Approval:
		return fmt.Errorf("it waits for %q", t.Wait)
	case t.Until < 0 || t.Until > 0 && finish || t.Otherwise != "" && t.Wait != Client:
		return errors.New("its Until is of no call that waits, or its Otherwise of none that waits for a Client")
	case len(t.Otherwise) > maxOtherwise:
		return fmt.Errorf("its Otherwise has more than %d bytes", maxOtherwise)
	case t.Class == ledger.Verifiable && t.Verify == nil:
		return errors.New("it is Verifiable without Verify")
	case t.schema != nil || t.Parameters == nil:
		return nil
	}
	s := new(jsonschema.Schema)
	err := json.Unmarshal(t.Parameters, s)
	if err == nil && s.Type != "object" {
		err = errors.New("their type is not object")
	}
	if err == nil {
		t.schema, err = argschema.Resolve(s)
	}
	if err != nil {
		return fmt.Errorf("its Parameters: %w", err)
	}
	return nil
}

// misfit says why the arguments do not fit, for the model. It returns "" if they do.
func (t *Tool) misfit(args json.RawMessage) string {
	v, err := decode[any](args)
	if o, _ := v.(map[string]any); o[unreadable] != nil && len(o) == 1 {
		return "they are no JSON object"
	}
	if t.schema == nil {
		return ""
	}
	if err == nil {
		err = t.schema.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// waits reports whether the call needs somebody.
func (t *Tool) waits(args json.RawMessage) bool {
	return t.Wait != "" && (t.When == nil || t.When(args))
}

// decode reads arguments. No arguments are an empty object.
func decode[In any](args json.RawMessage) (in In, err error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return in, json.Unmarshal(args, &in)
}
