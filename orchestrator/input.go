package orchestrator

import (
	"cmp"
	"encoding/json"
	"log/slog"
)

// An Input opens a turn. Everything that a turn needs of its caller goes in here: a resume has nothing else.
// Limits.Input bounds it.
type Input struct {
	// RequestID identifies the request. A repeat with the same id gets the settled result. "" means none.
	RequestID string
	Text      string
	Data      json.RawMessage

	// Origin says what kind of input it is, and By who sent it. Both are stored with the turn, and Begin sees both.
	// The program that takes the input from outside sets them. No JSON does: a client cannot choose them.
	Origin Origin `json:"-"`

	// By is an id, at most 512 bytes. It goes to logs. "" means that it is not known.
	By string `json:"-"`

	// Kind is a word of the program for what the input is: "say", "update", "timer". It has 64 letters, digits, dots,
	// dashes and underscores at most, and is stored with the turn as By is. It tells the turns of a session apart
	// without reading what was said. It is no part of what makes an input the repeat of another.
	Kind string `json:"-"`
}

// An Origin says where an input comes from. A turn that does something only because a person has approved it asks for
// FromAnswer. An answer, or an input of the system, is never the repeat of an input of another origin, also with one
// request id.
type Origin string

// The origins.
const (
	// FromUser is a person who talks in the session. Let such an input do the least.
	FromUser Origin = ""

	// FromAnswer is an answer to what the bot has asked a person. By is that person.
	FromAnswer Origin = "answer"

	// FromTool is the turn of another bot; see Tool. By is the By of its input.
	FromTool Origin = "tool"

	// FromSystem is the program itself: a timer, an import, an event of another service.
	FromSystem Origin = "system"
)

// String returns "user" for FromUser.
func (o Origin) String() string { return cmp.Or(string(o), "user") }

func (o Origin) known() bool {
	return o == FromUser || o == FromAnswer || o == FromTool || o == FromSystem
}

// LogValue keeps what the user said out of logs.
func (in Input) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("request", in.RequestID), slog.String("origin", in.Origin.String()), slog.String("by", in.By),
		slog.String("kind", in.Kind))
}
