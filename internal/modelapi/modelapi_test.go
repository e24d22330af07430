package modelapi_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
)

type (
	line struct {
		Item  string   `json:"item" jsonschema:"what"`
		Count int      `json:"count"`
		Tags  []string `json:"tags"`
	}
	bill struct {
		Lines []line  `json:"lines"`
		Note  *string `json:"note"`
	}
	loose struct {
		Line line   `json:"line"`
		Note string `json:"note,omitempty"`
	}
)

// Vendors hold a model to a schema in which each object requires all its members and allows no others.
func TestStrict(t *testing.T) {
	parameters := func(t *agent.Tool) string { return string(t.Parameters) }
	for schema, want := range map[string]bool{
		parameters(agent.Output[bill]("x", "")):                                        true,
		parameters(agent.Output[loose]("x", "")):                                       false,
		parameters(agent.Output[map[string]string]("x", "")):                           false,
		`{"type":"object","properties":{},"required":[],"additionalProperties":false}`: true,
		`{"type":"object","properties":{}}`:                                            false, `{}`: false, `{`: false, ``: false,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}},"required":["a"],
			"additionalProperties":false}`: false,
		`{"type":"object","anyOf":[],"properties":{},"required":[],"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"object"}]}},"required":["a"],
			"additionalProperties":false}`: false,
	} {
		if got := modelapi.Strict([]byte(schema)); got != want {
			t.Errorf("%s: %t", schema, got)
		}
	}
}
