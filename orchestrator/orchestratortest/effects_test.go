package orchestratortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
)

// A process dies at each call of the ledger. The next one pays no second time.
func TestEffects(t *testing.T) {
	paid := 0
	d := orchestrator.Definition[string]{Name: "shop", Intents: orchestrator.Intents[string]{
		"pay": {Run: func(ctx context.Context, t *orchestrator.Turn[string]) (err error) {
			t.State, err = orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
				paid++
				return "receipt", nil
			}, &orchestrator.OnceOptions[string]{
				Class: ledger.Verifiable, Verify: func(context.Context, string) (string, bool, error) {
					return "receipt", paid > 0, nil
				},
				Settles: time.Nanosecond,
			})
			return err
		}},
	}}
	for _, step := range []string{"ledger.Issue", "ledger.Finish"} {
		for _, die := range []func(*orchestratortest.Process[string]){
			func(p *orchestratortest.Process[string]) { p.DieBefore(step, 1) },
			func(p *orchestratortest.Process[string]) { p.DieAfter(step, 1) },
		} {
			paid = 0
			w := new(orchestratortest.World)
			first := orchestratortest.Start(w, d, nil)
			die(first)
			if _, err := first.Bot.Execute(t.Context(), "s", orchestrator.Input{}, nil); err == nil || !first.Dead() {
				t.Fatalf("%s: the process lives, and says %v", step, err)
			}
			if err := first.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			res, err := orchestratortest.Start(w, d, nil).Bot.Resume(t.Context(), "s", nil)
			if err != nil || res.State != "receipt" || paid != 1 {
				t.Errorf("%s: %v, paid %d times", step, err, paid)
			}
		}
	}
}
