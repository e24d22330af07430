package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
)

const (
	maxText = 2 << 10 // bytes of an error
	maxName = 100
)

// An InputRequiredError says that a tool has not run, since its server asks for something that nobody can give here.
// The model sees it.
type InputRequiredError struct{ Asks []string }

func (e *InputRequiredError) Error() string {
	return cut(fmt.Sprintf("not executed: the server asks for what it cannot get here: %q", e.Asks), maxText)
}

// result returns what the model sees of a result.
func (c *Client) result(r *sdk.CallToolResult) (string, error) {
	if r.NeedsInput() || r.InputRequests != nil {
		return "", required(r)
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
