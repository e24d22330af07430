package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/message"
)

// stripped returns text without U+0000, which no store takes.
func stripped(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// clean returns a message without U+0000: a model or a tool that says one must not fail the turn.
func clean(m message.Message) message.Message {
	dirty := func(b message.Block) bool {
		return strings.ContainsRune(b.Text, 0) || bytes.Contains(b.Raw, []byte(`\u0000`))
	}
	if !slices.ContainsFunc(m.Blocks, dirty) {
		return m
	}
	m.Blocks = slices.Clone(m.Blocks)
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if !dirty(*b) {
			continue
		}
		b.Text = stripped(b.Text)
		d := json.NewDecoder(bytes.NewReader(b.Raw))
		d.UseNumber()
		var v any
		if len(b.Raw) == 0 || d.Decode(&v) != nil {
			continue
		}
		if raw, err := json.Marshal(strippedValue(v)); err == nil {
			b.Raw = raw
		}
	}
	return m
}

// strippedValue strips the strings of a JSON value.
func strippedValue(v any) any {
	switch v := v.(type) {
	case string:
		return stripped(v)
	case []any:
		for i := range v {
			v[i] = strippedValue(v[i])
		}
	case map[string]any:
		parts := make(map[string]any, len(v))
		for name, part := range v {
			parts[stripped(name)] = strippedValue(part)
		}
		return parts
	}
	return v
}
