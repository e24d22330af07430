package agent

import (
	"fmt"

	"github.com/holdfast-go/holdfast/message"
)

// Valid says why a model API would not take what was said: a call of the assistant without exactly one result before
// anything else is said, a result without a call, or calls with one id. waiting are the calls that still may have no
// result. Doctor heals all of it, and more.
func Valid(said []message.Message, waiting map[string]bool) error {
	open, used := make(map[string]bool), make(map[string]bool)
	for i, m := range said {
		for id := range open {
			if m.Role != roleTool {
				return fmt.Errorf("message %d: call %s has no result", i, id)
			}
		}
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				switch {
				case m.Role != message.RoleAssistant:
					return fmt.Errorf("message %d: the %s calls a tool", i, m.Role)
				case c.ID == "" || used[c.ID]:
					return fmt.Errorf("message %d: another call has the id %q, or it is empty", i, c.ID)
				}
				open[c.ID], used[c.ID] = true, true
			}
			if r, ok := b.Result(); ok {
				if m.Role != roleTool || !open[r.CallID] {
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
