package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A session whose reply is owed takes no further input. So no turn sees a conversation with a hole.
func TestRequireDelivered(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		c := new(conversation)
		d := echo()
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
			t.State.N = len(t.History)
			return nil
		}}
		bot := c.Start(t, w, d)
		c.Down.Store(true)
		first := execute(t, bot, Input{RequestID: "1", Text: "a"})
		for _, in := range []Input{{RequestID: "2", Text: "b"}, {Text: "b"}} {
			_, err := bot.Execute(t.Context(), "s", in, nil)
			wantErr(t, err, orchestrator.ErrOwed)
			wantErr(t, err, errDelivery)
			wantOp(t, err, "begin")
			if errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("in doubt: %v", err)
			}
		}
		wantRuns(t, bot, 0)
		if again := execute(t, bot, Input{RequestID: "1", Text: "a"}); !again.Replayed || again.RunID != first.RunID {
			t.Errorf("a repeat is %+v", again)
		}
		c.Down.Store(false)
		if second := execute(t, bot, Input{RequestID: "2", Text: "b"}); second.Turn != 1 || second.State.N != 1 {
			t.Errorf("turn %d saw %d messages", second.Turn, second.State.N)
		}
		if got := strings.Join(c.Lines, " "); got != "a b" {
			t.Errorf("the conversation is %q", got)
		}
	})
}
