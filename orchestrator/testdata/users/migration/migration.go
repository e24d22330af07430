// Package migration is a bot whose stored states have an older form.
package migration

import (
	"context"
	"encoding/json"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type State struct{ OrderID string }

func migrate(ctx context.Context, cp checkpoint.Checkpoint) (State, error) {
	var old struct {
		State
		Order string
	}
	err := json.Unmarshal(cp.State, &old)
	if cp.Version < "2026-12" {
		old.OrderID = old.Order
	}
	return old.State, err
}

var def = orchestrator.Definition[State]{
	Name: "refund-support", Version: "2026-12", Migrate: migrate,
	Intents: orchestrator.Intents[State]{"a": {}},
}
var _ = def
