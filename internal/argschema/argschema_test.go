package argschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-go/holdfast/internal/argschema"
)

func resolve(t *testing.T, doc string) (*argschema.Schema, error) {
	t.Helper()
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(doc), s); err != nil {
		t.Fatal(doc, err)
	}
	return argschema.Resolve(s)
}

// A schema whose validation would not end, or would take the stack, is refused.
func TestRefused(t *testing.T) {
	endless, elsewhere, many := "refers to itself for the same value", "is no part of it", "too many schemas"
	for doc, want := range map[string]string{
		`{"type":"object","$ref":"#"}`:                   endless,
		`{"type":"object","$REF":"#"}`:                   endless,
		`{"$id":"https://a.example/","$ref":"#"}`:        endless,
		`{"allOf":[{"$ref":"#"}]}`:                       endless,
		`{"anyOf":[{"$ref":"#"}]}`:                       endless,
		`{"oneOf":[{"$ref":"#"}]}`:                       endless,
		`{"not":{"$ref":"#"}}`:                           endless,
		`{"if":{"$ref":"#"}}`:                            endless,
		`{"if":{},"then":{"$ref":"#"}}`:                  endless,
		`{"if":{},"else":{"$ref":"#"}}`:                  endless,
		`{"dependentSchemas":{"a":{"$ref":"#"}}}`:        endless,
		`{"dependencies":{"a":{"$ref":"#"}}}`:            endless,
		`{"properties":{"a":{"$ref":"#/properties/a"}}}`: endless,
		`{"items":{"$ref":"#/items"}}`:                   endless,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`: endless,
		`{"$ref":"#/$defs/a~1%62","$defs":{"a/b":{"allOf":[{"$ref":"#"}]}}}`:               endless,
		`{"$ref":"#/not"}`:                                                elsewhere,
		`{"$anchor":"me","$ref":"#me"}`:                                   elsewhere,
		`{"$dynamicAnchor":"me","$dynamicRef":"#me"}`:                     elsewhere,
		`{"$dynamicRef":"#"}`:                                             elsewhere,
		`{"$id":"https://a.example/x","$ref":"x"}`:                        elsewhere,
		`{"$ref":"#/$defs/a","$defs":{"a":{"$id":"https://a.example/"}}}`: "an $id of its own",
		doubling(20): many, chain(40): many,
	} {
		if _, err := resolve(t, doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", doc, err, want)
		}
	}
}

// doubling returns a schema of n parts, each of which is tried twice as often as the one before.
func doubling(n int) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`, i, i+1))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/0","$defs":{%s,"%d":{}}}`, strings.Join(defs, ","), n)
}

// chain returns a schema with n schemas for the one value, each inside the other.
func chain(n int) string {
	return strings.Repeat(`{"allOf":[`, n) + "{}" + strings.Repeat("]}", n)
}

// A list, a tree and parts that are used twice are what people write.
func TestTaken(t *testing.T) {
	for _, c := range []struct{ doc, fits, misfits string }{
		{`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`, `{}`, `3`},
		{`{"type":"object","properties":{"next":{"$ref":"#"}}}`, `{"next":{"next":{}}}`, `{"next":{"next":3}}`},
		{`{"type":"object","additionalProperties":{"$ref":"#"}}`, `{"a":{"b":{}}}`, `{"a":{"b":3}}`},
		{
			`{"properties":{"or":{"items":{"$ref":"#"}},"is":{"type":"string"}}}`,
			`{"or":[{"is":"x"}]}`, `{"or":[{"is":3}]}`,
		},
		{
			`{"properties":{"a":{"$ref":"#/definitions/p"},"b":{"$ref":"#/definitions/p"}},` +
				`"definitions":{"p":{"minimum":1}}}`,
			`{"a":1,"b":2}`, `{"a":1,"b":0}`,
		},
		{
			`{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://a.example/",` +
				`"items":[{"$ref":"#/items/1"},{"const":1}]}`,
			`[1,1]`, `[2,1]`,
		},
	} {
		s, err := resolve(t, c.doc)
		if err != nil {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		for doc, fits := range map[string]bool{c.fits: true, c.misfits: false} {
			var v any
			if err := json.Unmarshal([]byte(doc), &v); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err == nil) != fits {
				t.Errorf("%s by %s: %v", doc, c.doc, err)
			}
		}
	}
}

// What is nested most, by the longest chain for each value, leaves the stack whole. What is nested more is refused.
func TestDeep(t *testing.T) {
	doc := `{"allOf":[{"properties":{"a":{"$ref":"#"}},"items":{"$ref":"#"}}]}`
	s, err := resolve(t, strings.Repeat(`{"allOf":[`, 28)+doc+strings.Repeat("]}", 28))
	if err != nil {
		t.Fatal(err)
	}
	for n, fits := range map[int]bool{200: true, 201: false, 9000: false} {
		for opens, closes := range map[string]string{`{"a":`: "}", "[": "]"} {
			var v any
			if err := json.Unmarshal([]byte(strings.Repeat(opens, n)+"3"+strings.Repeat(closes, n)), &v); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err == nil) != fits {
				t.Errorf("%d of %s: %v", n, opens, err)
			}
		}
	}
}
