package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
)

const (
	maxText = 2 << 10 // bytes of an error
	maxName = 100
)

// An InputRequiredError says that a tool has not run, since it asks a person something first. The model sees it.
type InputRequiredError struct{ Questions []string }

func (e *InputRequiredError) Error() string {
	text := "not executed: the tool asks a person first, and cannot be answered here"
	if len(e.Questions) > 0 {
		text += fmt.Sprintf(": %q", e.Questions)
	}
	return text
}

// ask adds a question.
func (e *InputRequiredError) ask(p *sdk.ElicitParams) {
	e.Questions = append(e.Questions, cut(strings.TrimSpace(p.Message+" "+p.URL), maxText))
}

// asked returns what the data of an error asks.
func asked(data json.RawMessage) error {
	var of struct{ Elicitations []*sdk.ElicitParams }
	e := new(InputRequiredError)
	if json.Unmarshal(data, &of) == nil {
		for _, p := range of.Elicitations {
			if p != nil {
				e.ask(p)
			}
		}
	}
	return e
}

// result returns what the model sees of a result.
func (c *Client) result(f *offer, r *sdk.CallToolResult) (string, error) {
	if r.NeedsInput() || r.InputRequests != nil {
		e := new(InputRequiredError)
		for _, q := range r.InputRequests {
			if p, ok := q.(*sdk.ElicitParams); ok {
				e.ask(p)
			}
		}
		return "", ledger.NotDone(e)
	}
	text := cut(textOf(r), c.opts.MaxResult)
	if !r.IsError {
		return text, nil
	}
	if text == "" {
		text = "the tool failed"
	}
	return "", agent.Ran(errors.New(text))
}

// textOf returns the contents as text. What is no text is named.
func textOf(r *sdk.CallToolResult) string {
	var parts []string
	for _, content := range r.Content {
		switch part := content.(type) {
		case *sdk.TextContent:
			parts = append(parts, part.Text)
		case *sdk.ImageContent:
			parts = append(parts, fmt.Sprintf("[%s, %d bytes, not shown]", part.MIMEType, len(part.Data)))
		case *sdk.AudioContent:
			parts = append(parts, fmt.Sprintf("[%s, %d bytes, not shown]", part.MIMEType, len(part.Data)))
		case *sdk.ResourceLink:
			parts = append(parts, strings.TrimSpace("["+part.URI+"] "+part.Description))
		case *sdk.EmbeddedResource:
			switch of := part.Resource; {
			case of == nil:
			case of.Text != "":
				parts = append(parts, of.Text)
			default:
				parts = append(parts, fmt.Sprintf("[%s, %d bytes, not shown]", of.URI, len(of.Blob)))
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if doc, err := json.Marshal(r.StructuredContent); err == nil {
			return string(doc)
		}
	}
	return strings.Join(parts, "\n")
}

// cut returns the beginning of a text, and says so.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return fmt.Sprintf("%s [cut: there were %d bytes]", strings.Clone(text[:most]), len(text))
}

// short returns an error whose text has a bound.
func short(err error) error {
	if text := err.Error(); len(text) > maxText {
		return errors.New(cut(text, maxText))
	}
	return err
}
