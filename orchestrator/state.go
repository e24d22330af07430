package orchestrator

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// encode and decode are the places where the marshaling of S itself may panic.
func encode[S any](state *S) (raw json.RawMessage, err error) {
	err = protect(func() (err error) {
		raw, err = json.Marshal(state)
		return err
	})
	return raw, logtext.Private(err)
}

func decode[S any](raw json.RawMessage) (state S, err error) {
	err = protect(func() error { return json.Unmarshal(raw, &state) })
	if err != nil {
		return state, fmt.Errorf("state: %w", logtext.Private(err))
	}
	return state, nil
}
