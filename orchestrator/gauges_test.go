package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Of the open effects those are in doubt that may have happened, that no process is at work on, and that matter.
func TestBacklogEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		effects, d := new(ledger.Memory), echo()
		bot := newWorld().Start(t, d, Options{Ledger: effects})
		issue := func(id, orchestrator string, c ledger.Class, left bool) {
			t.Helper()
			e := ledger.Effect{
				ID: id, Orchestrator: orchestrator, Session: "s", RunID: "run of " + id, Name: "pay", Class: c,
				Fence: lock.Fence{Epoch: 1, Nonce: "n"},
			}
			_, _, err := effects.Issue(t.Context(), e, false)
			if err == nil && left {
				err = effects.Adopt(t.Context(), e.RunID, lock.Fence{Epoch: 2, Nonce: "n"})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		issue("old", d.Name, ledger.Ask, true)
		time.Sleep(time.Hour)
		issue("young", d.Name, ledger.Verifiable, true)
		issue("at work", d.Name, ledger.Ask, false)
		issue("pure", d.Name, ledger.Pure, true)
		issue("of another", "another", ledger.Ask, true)
		got, err := bot.Backlog(t.Context())
		if err != nil || got != (orchestrator.Backlog{InDoubt: 2, OldestInDoubt: time.Hour}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
