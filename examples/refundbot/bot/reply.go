package bot

import (
	"embed"
	"io/fs"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Reply holds the part of a settled turn that clients see.
type Reply struct {
	Input    string `json:"input"`
	Text     string `json:"text"`
	Category string `json:"category"`
	Order    string `json:"order,omitempty"`
	Receipt  string `json:"receipt,omitempty"`

	// InDoubt says that a person pursues the refund without the bot.
	InDoubt bool `json:"inDoubt,omitempty"`

	// Waiting says that a person has to approve.
	Waiting bool `json:"waiting,omitempty"`
}

// ReplyOf returns the reply of a turn.
func ReplyOf(in orchestrator.Input, s *State) Reply {
	return Reply{
		Input: in.Text, Text: s.Reply, Category: s.Category, Order: s.Order, Receipt: s.Receipt,
		InDoubt: s.Decision == Unsettled, Waiting: s.Decision == Propose || s.Decision == Waiting,
	}
}

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the migrations of the tables of [Messages], for goose.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}
