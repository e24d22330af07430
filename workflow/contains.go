package workflow

import (
	"bytes"
	"encoding/json"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

// Contains reports whether doc @> part, as PostgreSQL has it: part is doc with members and elements left out. A nil
// part is contained in every document. All stores say the same.
func Contains(doc, part json.RawMessage) bool {
	if part == nil {
		return true
	}
	d, err1 := value(doc)
	p, err2 := value(part)
	return err1 == nil && err2 == nil && within(d, p, true)
}

// value decodes a document. Equal numbers are equal texts in it.
func value(doc json.RawMessage) (v any, err error) {
	canonical, err := jsonvalue.Canonical(doc)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// within reports whether part is contained in doc. A scalar is contained in an array only at the top.
func within(doc, part any, top bool) bool {
	switch part := part.(type) {
	case map[string]any:
		members, ok := doc.(map[string]any)
		for name, p := range part {
			d, has := members[name]
			ok = ok && has && within(d, p, false)
		}
		return ok
	case []any:
		elements, ok := doc.([]any)
		for _, p := range part {
			ok = ok && some(elements, p)
		}
		return ok
	}
	if elements, ok := doc.([]any); ok {
		return top && some(elements, part)
	}
	if _, ok := doc.(map[string]any); ok {
		return false
	}
	return doc == part
}

// some reports whether an element contains part.
func some(elements []any, part any) bool {
	for _, d := range elements {
		if within(d, part, false) {
			return true
		}
	}
	return false
}

// equal reports whether two documents are equal as JSON values.
func equal(a, b json.RawMessage) bool {
	x, err1 := jsonvalue.Canonical(a)
	y, err2 := jsonvalue.Canonical(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
