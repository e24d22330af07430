package ledger_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// An effect is intact if a ledger could have written it. The size of its documents may be any.
func TestIntact(t *testing.T) {
	intact := func() ledger.Effect {
		return ledger.Effect{
			ID: "a", Orchestrator: "bot", Session: "s", RunID: "r", Name: "n", State: ledger.Issued, Attempts: 1,
			Fence: lock.Fence{Epoch: 1, Nonce: "n"}, Args: json.RawMessage(`{}`),
		}
	}
	e := intact()
	e.Args = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxDocument) + `"`)
	if err := e.Intact(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*ledger.Effect){
		"no run":             func(e *ledger.Effect) { e.RunID = "" },
		"unknown state":      func(e *ledger.Effect) { e.State = "done" },
		"unknown class":      func(e *ledger.Effect) { e.Class = 9 },
		"no attempt":         func(e *ledger.Effect) { e.Attempts = 0 },
		"no fence":           func(e *ledger.Effect) { e.Fence = lock.Fence{} },
		"arguments, no JSON": func(e *ledger.Effect) { e.Args = json.RawMessage(`{`) },
		"result, no JSON":    func(e *ledger.Effect) { e.Result = json.RawMessage{} },
		"a long error":       func(e *ledger.Effect) { e.Error = strings.Repeat("x", ledger.MaxError+1) },
		"answered by bytes":  func(e *ledger.Effect) { e.AnsweredBy = "\xff" },
	} {
		e := intact()
		change(&e)
		err := e.Intact()
		if d, ok := errors.AsType[*ledger.DamagedError](err); !ok || d.ID != e.ID ||
			!errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
