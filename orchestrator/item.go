package orchestrator

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// ForEach runs an intent once for each item, each time as a branch of its own: on a copy of the state, merged in the
// order of the items. [Item] returns the item of a branch. An item that is named twice runs twice. If there is no item,
// nothing runs, and the turn goes on with what follows the intent.
//
// Limits.FanOut branches run at once, and the others wait. A branch that has finished is saved, and does not run again
// after a crash. If a branch fails, the others run to their end, and then the turn fails with the errors of all.
//
// The items of a decision are saved with it, as JSON. Together they count as a state does: Limits.State bounds them.
// There are at most 10,000 of them.
func ForEach[T any](intent string, all ...T) Next {
	n := Next{Intents: []string{intent}}
	each := items{count: len(all), raw: make([]json.RawMessage, 0, len(all))}
	for i, item := range all {
		var raw json.RawMessage
		err := protect(func() (err error) {
			raw, err = json.Marshal(item)
			return err
		})
		if err != nil {
			n.fault = fmt.Errorf("ForEach %q, item %d: %w", intent, i+1, logtext.Private(err))
			break
		}
		each.raw = append(each.raw, raw)
	}
	n.each = map[string]items{intent: each}
	return n
}

// Item returns the item that the intent runs for. It panics if there is none, or if the item is no T. So the turn
// fails, with a *PanicError. For a Turn made by hand, set Turn.Item to the JSON of the item.
func Item[T, S any](t *Turn[S]) T {
	var item T
	if t.Item == nil {
		panic(fmt.Errorf("Item[%T]: the intent%s runs without an item; ForEach gives it one", item, t.who()))
	}
	if err := json.Unmarshal(t.Item, &item); err != nil {
		panic(fmt.Errorf("Item[%T]: item %d of the intent%s: %w", item, t.ItemNumber, t.who(), err))
	}
	return item
}

// who names the intent in an error.
func (t *Turn[S]) who() string {
	if t.line == nil || t.line.intent == "" {
		return ""
	}
	return " " + strconv.Quote(t.line.intent)
}
