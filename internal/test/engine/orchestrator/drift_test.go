package orchestrator_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A process leaves a session alone if it would lose what another process has stored. It drops nothing, in no way to
// read a state. The process that stored it goes on.
func TestDrift(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		newer := w.Start(t, echo(), Options{})
		execute(t, newer, Input{Text: "a", RequestID: "r"})
		older := bottest.StartAs(t, w, lesser())
		for name, in := range map[string]Input{"new": {Text: "b"}, "repeated": {Text: "a", RequestID: "r"}} {
			t.Log(name)
			_, err := older.Execute(t.Context(), "s", in, nil)
			wantDrift(t, err, []string{"N"}, nil)
			wantOp(t, err, "drift")
		}
		if err := older.Fork(t.Context(), "s", checkpoint.Newest, "forked"); err != nil {
			t.Errorf("a fork copies what it cannot read: %v", err)
		}
		_, err := older.Execute(t.Context(), "forked", Input{Text: "b"}, nil)
		wantDrift(t, err, []string{"N"}, nil)
		execute(t, newer, Input{Text: "b"})
		read := 0
		for _, err := range older.Turns(t.Context(), "s") {
			wantDrift(t, err, []string{"N"}, nil)
			read++
		}
		if read != 2 {
			t.Errorf("%d turns, want 2", read)
		}
		res, err := older.Execute(t.Context(), "s", Input{Text: "c"}, &orchestrator.CallOptions{Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(res.State.Said, " "); got != "a b c" {
			t.Errorf("said %q", got)
		}
		wantSaid(t, execute(t, newer, Input{Text: "d"}).State, "a", "b", "c", "d")
		if _, err := older.Execute(t.Context(), "forked", Input{Text: "c"}, nil); err == nil {
			t.Error("the fork has lost what Force has dropped elsewhere")
		}
	})
}
