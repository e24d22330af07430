package agent

import (
	"fmt"

	"github.com/holdfast-go/holdfast/message"
)

// Valid says why a model API would not take what was said: a call without exactly one result before the next message of
// a user. waiting are the calls that still may have none.
func Valid(said []message.Message, waiting map[string]bool) error {
	open := make(map[string]bool)
	for i, m := range said {
		if m.Role == message.RoleUser || m.Role == message.RoleAssistant {
			for id := range open {
				return fmt.Errorf("message %d: call %s has no result", i, id)
			}
		}
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				open[c.ID] = true
			}
			if r, ok := b.Result(); ok {
				if !open[r.CallID] {
					return fmt.Errorf("message %d: a result for %s, which is not open", i, r.CallID)
				}
				delete(open, r.CallID)
			}
		}
	}
	for id := range open {
		if !waiting[id] {
			return fmt.Errorf("call %s has no result at the end", id)
		}
	}
	return nil
}
