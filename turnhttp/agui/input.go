package agui

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/internal/httpjson"
)

// A RunInput is what a client of AG-UI sends.
type RunInput struct {
	ThreadID string `json:"threadId"` // the session
	RunID    string `json:"runId"`

	// State is what the client has. The bot does not take it: see Options.State.
	State json.RawMessage `json:"state"`

	Messages       []Message       `json:"messages"`
	Tools          json.RawMessage `json:"tools"`
	Context        json.RawMessage `json:"context"`
	ForwardedProps json.RawMessage `json:"forwardedProps"`
	Resume         []Resume        `json:"resume"`

	raw []any // the messages, as they came
}

// A Message is a message that a client has.
type Message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string, or a list of parts
	ToolCallID string          `json:"toolCallId"`
	Error      string          `json:"error"` // of a tool

	Metadata map[string]json.RawMessage `json:"metadata"`
}

// A Resume answers an interrupt.
type Resume struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"` // resolved or cancelled
	Payload     json.RawMessage `json:"payload"`
}

// after returns the cursor that the client has kept with the message.
func (m Message) after() (text string) {
	_ = json.Unmarshal(m.Metadata[cursorKey], &text) // anything else is no cursor
	return text
}

// Text returns the text of the message. plain says that it has nothing but text.
func (m Message) Text() (text string, plain bool) {
	if json.Unmarshal(m.Content, &text) == nil {
		return text, true
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", false
	}
	var all strings.Builder
	plain = true
	for _, part := range parts {
		if part.Type == "text" {
			all.WriteString(part.Text)
		} else {
			plain = false
		}
	}
	return all.String(), plain
}

// readInput reads the body of a request. A member that is not known is of a later version of the protocol.
func readInput(r *http.Request) (in RunInput, err error) {
	doc, err := httpjson.Read(r)
	if err != nil {
		return in, err
	}
	var raw struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if json.Unmarshal(doc, &in) != nil || json.Unmarshal(doc, &raw) != nil {
		return in, httpjson.ErrBadRequest.Because("The body has to be a RunAgentInput.")
	}
	for _, m := range raw.Messages {
		in.raw = append(in.raw, m)
	}
	return in, nil
}

// said returns the index of the newest message of the user; -1 if there is none.
func (in RunInput) said() int {
	for i := len(in.Messages) - 1; i >= 0; i-- {
		if in.Messages[i].Role == "user" {
			return i
		}
	}
	return -1
}
