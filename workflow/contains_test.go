package workflow_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/workflow"
)

// rows are documents, parts and verdicts of PostgreSQL.
func rows(t testing.TB) (all [][3]string) {
	t.Helper()
	data, err := os.ReadFile("workflowtest/testdata/jsonb_golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		all = append(all, [3]string(parts))
	}
	return all
}

func TestContains(t *testing.T) {
	all := rows(t)
	for _, r := range all {
		if got := workflow.Contains(json.RawMessage(r[0]), json.RawMessage(r[1])); got != (r[2] == "true") {
			t.Errorf("%s @> %s is %t", r[0], r[1], got)
		}
	}
	if len(all) != 38 {
		t.Errorf("%d rows, want 38", len(all))
	}
	for _, doc := range []string{`null`, `1`, `{}`, `[1]`} {
		if !workflow.Contains(json.RawMessage(doc), nil) {
			t.Errorf("%s does not contain no part", doc)
		}
	}
	if !workflow.Contains(nil, json.RawMessage(`null`)) || workflow.Contains(nil, json.RawMessage(`{}`)) {
		t.Error("no document is not null")
	}
	if workflow.Contains(json.RawMessage(`{`), json.RawMessage(`{}`)) ||
		workflow.Contains(json.RawMessage(`{}`), json.RawMessage(`{`)) {
		t.Error("what is no JSON contains, or is contained")
	}
}

// FuzzContains checks what holds of all documents: each contains itself, and what it contains it contains within an
// object and an array too. But an array contains a scalar at the top only.
func FuzzContains(f *testing.F) {
	for _, r := range rows(f) {
		f.Add(r[0], r[1])
	}
	f.Fuzz(func(t *testing.T, doc, part string) {
		if !json.Valid([]byte(doc)) || !json.Valid([]byte(part)) {
			t.Skip()
		}
		contains := func(doc, part string) bool {
			return workflow.Contains(json.RawMessage(doc), json.RawMessage(part))
		}
		if !contains(doc, doc) || !contains(part, part) {
			t.Errorf("%s or %s does not contain itself", doc, part)
		}
		has := contains(doc, part)
		scalarInArray := strings.TrimLeft(doc, " \t\r\n")[0] == '[' && strings.TrimLeft(part, " \t\r\n")[0] != '['
		if within := contains(`{"a":`+doc+`}`, `{"a":`+part+`}`); within != (has && !scalarInArray) {
			t.Errorf("%s @> %s is %t, and %t in an object", doc, part, has, within)
		}
		if within := contains(`["x",`+doc+`]`, `[`+part+`]`); has && !scalarInArray && !within {
			t.Errorf("%s @> %s, and not in an array", doc, part)
		}
	})
}

// A document with members and elements left out is contained in the document.
func TestContainsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t, 3)
		whole, err1 := json.Marshal(doc)
		part, err2 := json.Marshal(drawPart(t, doc))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if !workflow.Contains(whole, part) {
			t.Errorf("%s does not contain %s", whole, part)
		}
	})
}

func drawDocument(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Float64Range(-1e6, 1e6).Draw(t, "number")
	case 3:
		return rapid.StringN(0, 4, 8).Draw(t, "text")
	case 4:
		var all []any
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			all = append(all, drawDocument(t, depth-1))
		}
		return append([]any{}, all...)
	}
	all := make(map[string]any)
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		all[rapid.StringMatching(`[a-c]`).Draw(t, "name")] = drawDocument(t, depth-1)
	}
	return all
}

// drawPart leaves out members and elements.
func drawPart(t *rapid.T, doc any) any {
	keep := rapid.Bool()
	switch doc := doc.(type) {
	case map[string]any:
		part := make(map[string]any)
		for name, v := range doc {
			if keep.Draw(t, "keep "+name) {
				part[name] = drawPart(t, v)
			}
		}
		return part
	case []any:
		part := []any{}
		for _, v := range doc {
			for keep.Draw(t, "keep") && len(part) < 9 { // also twice, and in another order
				part = append([]any{drawPart(t, v)}, part...)
			}
		}
		return part
	}
	return doc
}
