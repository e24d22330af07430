package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Strangers leave no head on any backend: the next claim of each name begins a life.
func TestStrangersLeaveNoHead(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w world) {
		for name, d := range map[string]Def{"refused": refusesInput(), "failed": failsTurns()} {
			d.Name = name
			bot := w.Start(t, d, Options{})
			for i := range strangers {
				session := fmt.Sprint("stranger ", i)
				if _, err := bot.Execute(t.Context(), session, Input{Text: "hello"}, nil); err == nil {
					t.Fatal("the input is taken")
				}
			}
			for i := range strangers {
				k := checkpoint.Key{Orchestrator: name, Session: fmt.Sprint("stranger ", i)}
				c, err := w.Checkpoints.Claim(t.Context(), k, checkpoint.ClaimRequest{Nonce: "look", TTL: time.Hour})
				if err != nil || c.Born != c.Fence.Epoch {
					t.Fatalf("%s: claimed %+v, %v: a head was left", name, c, err)
				}
			}
		}
	})
}
