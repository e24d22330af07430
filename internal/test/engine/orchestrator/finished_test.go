package orchestrator_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run in another database is read as settled. It is deleted only after a claim from an owner, which is durable in
// that database. So no failover loses the turn of a run that is deleted. In one database both go together, and one
// claim is enough.
func TestFinishedRunIsDurable(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	stored, apart := f.Snapshots, struct{ snapshot.Store }{f.Snapshots}
	for _, test := range []struct {
		what      string
		snapshots snapshot.Store
		status    snapshot.Status
		calls     string
	}{
		{"settled, in two databases", apart, snapshot.Running, "runs claim runs claim adopt delete runs mark"},
		{"settled, in one database", stored, snapshot.Running, "runs claim runs adopt delete runs mark"},
		{"ended, in two databases", apart, snapshot.Ended, "runs claim runs adopt delete runs mark"},
	} {
		w := f.world
		w.Snapshots = test.snapshots
		bot := w.Start(t, rounds(1), Options{Limits: orchestrator.Limits{LeaseTTL: time.Hour}})
		res := execute(t, bot, Input{Text: "hello"})
		left := snapshot.Run{
			Key: snapshot.Key{Orchestrator: bot.Name(), Session: "s"}, ID: res.RunID, Turn: res.Turn, Attempt: 1,
			Status: test.status,
			Fence:  lock.Fence{Epoch: time.Now().UnixMicro(), Nonce: "n"},
		}
		if found, err := w.Snapshots.Begin(t.Context(), left); found != nil || err != nil {
			t.Fatal(found, err)
		}
		got := f.bill(func() {
			if what, err := bot.Recover(t.Context(), "s"); what != "cleaned" || err != nil {
				t.Errorf("%s: %q, %v", test.what, what, err)
			}
		})
		if got.calls != test.calls {
			t.Errorf("%s: %q, want %q", test.what, got.calls, test.calls)
		}
	}
}
