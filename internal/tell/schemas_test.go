package tell_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/turnhttp/agui"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// A schema is the part of JSON Schema that the documents in testdata use. An object may have the members that its
// schema names, and no others: the published schemas let all pass.
type schema struct {
	AnyOf, OneOf         []schema
	Type                 string
	Const                any
	Enum                 []any
	Pattern              string
	Properties           map[string]schema
	Required             []string
	AdditionalProperties *schema
	Items                *schema
	MinItems             int
	Minimum, Maximum     *float64
}

func readSchema(t *testing.T, name string) (s schema) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("testdata", "frontends", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// check returns why v does not fit.
func (s *schema) check(v any) error {
	for _, variants := range [][]schema{s.AnyOf, s.OneOf} {
		if len(variants) == 0 {
			continue
		}
		var faults []error
		for i := range variants {
			err := variants[i].check(v)
			if err == nil {
				faults = nil
				break
			}
			faults = append(faults, err)
		}
		if err := closest(faults); err != nil {
			return err
		}
	}
	if s.Const != nil && v != s.Const || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return errOther
	}
	switch v := v.(type) {
	case string:
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			return errOther
		}
		return s.is("string")
	case bool:
		return s.is("boolean")
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return fmt.Errorf("%v is out of range", v)
		}
		return s.is("integer", "number")
	case []any:
		return s.checkArray(v)
	case map[string]any:
		return s.checkObject(v)
	}
	return fmt.Errorf("%v has no type", v)
}

// errOther says that a value is not the one that a variant is for.
var errOther = errors.New("another value")

// closest returns the fault of the variant that was meant.
func closest(faults []error) error {
	for _, err := range faults {
		if !errors.Is(err, errOther) {
			return err
		}
	}
	return errors.Join(faults...)
}

func (s *schema) is(types ...string) error {
	if s.Type != "" && !slices.Contains(types, s.Type) {
		return fmt.Errorf("a %s where a %s belongs", types[0], s.Type)
	}
	return nil
}

func (s *schema) checkArray(all []any) error {
	if len(all) < s.MinItems {
		return fmt.Errorf("%d items", len(all))
	}
	for _, v := range all {
		if s.Items == nil {
			break
		}
		if err := s.Items.check(v); err != nil {
			return err
		}
	}
	return s.is("array")
}

func (s *schema) checkObject(o map[string]any) error {
	if kind, ok := s.Properties["type"]; ok {
		if err := kind.check(o["type"]); err != nil {
			return err
		}
	}
	for _, name := range s.Required {
		if _, ok := o[name]; !ok {
			return fmt.Errorf("%v lacks %q", o, name)
		}
	}
	for name, v := range o {
		of, ok := s.Properties[name]
		if !ok && s.AdditionalProperties != nil {
			of, ok = *s.AdditionalProperties, true
		}
		if !ok && s.Properties != nil {
			return fmt.Errorf("%v has %q, which is not in the schema", o, name)
		}
		if err := of.check(v); ok && err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return s.is("object")
}

// What the encoders send fits the published schemas.
func TestFrontEndSchemas(t *testing.T) {
	for name, encode := range map[string]encoder{
		"uimessage-5.schema.json": uichat.Write, "uimessage-6.schema.json": uichat.Write,
		"uimessage-7.schema.json": uichat.Write, "agui-1.schema.json": agui.Write,
	} {
		t.Run(name, func(t *testing.T) {
			s, kinds := readSchema(t, name), make(map[string]bool)
			for _, sc := range scenes {
				w, _ := encoded(t, encode, sc.show())
				for _, doc := range documents(t, w.Body.String()) {
					if doc == "[DONE]" {
						continue
					}
					var v map[string]any
					if err := json.Unmarshal([]byte(doc), &v); err != nil {
						t.Fatal(err)
					}
					if err := s.check(v); err != nil {
						t.Errorf("%s: %v: %s", sc.name, err, doc)
					}
					kinds[v["type"].(string)] = true
				}
			}
			for _, variant := range s.AnyOf {
				if kind, ok := variant.Properties["type"].Const.(string); ok && !kinds[kind] {
					t.Errorf("no scene sends %q", kind)
				}
			}
		})
	}
}

// The check convicts documents that a front end would refuse.
func TestFrontEndSchemasConvict(t *testing.T) {
	for name, docs := range map[string][]string{
		"uimessage-6.schema.json": {
			`{"type":"text-delta","id":"1"}`, `{"type":"text-delta","id":1,"delta":"a"}`, `{"type":"hello"}`,
			`{"type":"finish","finishReason":"done"}`, `{"type":"start","messageID":"1"}`,
			`{"type":"data-x","transient":"yes","data":1}`, `{"type":"text-end","id":"1","providerMetadata":{"holdfast":1}}`,
		},
		"agui-1.schema.json": {
			`{"type":"RUN_FINISHED","threadId":"t"}`, `{"type":"RUN_STARTED","threadId":"t","runId":1}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused"}}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}`, `{"type":"STEP_STARTED","step":"a"}`,
			`{"type":"RUN_ERROR","message":"m","timestamp":1e300}`,
		},
	} {
		s := readSchema(t, name)
		for _, doc := range docs {
			var v any
			if err := json.Unmarshal([]byte(doc), &v); err != nil {
				t.Fatal(err)
			}
			if s.check(v) == nil {
				t.Errorf("%s takes %s", name, doc)
			}
		}
	}
}
