package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// What an owner stops doing when the session is lost.

// If a session is granted after its caller has stopped waiting, the session is released.
func TestGrantedAfterPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		limits := orchestrator.Limits{LockWait: time.Second, SettleTimeout: 2 * time.Second}
		slow := worldOf(&slowClaims{Store: w.Checkpoints, time: 3 * time.Second}, w.Snapshots)
		_, err := slow.Start(t, echo(), Options{Limits: limits}).Execute(t.Context(), "s", Input{Text: "a"}, nil)
		wantErr(t, err, orchestrator.ErrBusy)
		execute(t, w.Start(t, echo(), Options{Limits: limits}), Input{Text: "b"})
	})
}
