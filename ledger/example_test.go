package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A process dies while it pays. The next owner of the run finds the effect in doubt, and a person answers for it.
func ExampleResolve() {
	ctx := context.Background()
	l := new(ledger.Memory)
	refund := ledger.Effect{
		ID: "7f3a", Orchestrator: "support", Session: "s", RunID: "r1", Intent: "refund", Name: "pay",
		Key: "order 7", Fence: lock.Fence{Epoch: 1, Nonce: "n1"},
	}
	if _, _, err := l.Issue(ctx, refund, false); err != nil {
		log.Fatal(err)
	}
	// The process dies here. Another process owns the session now.
	err := ledger.Resolve(ctx, l, "7f3a", ledger.Answer{Skip: true, By: "Ann"})
	fmt.Println("at work:", errors.Is(err, lock.ErrHeld))
	if err := l.Adopt(ctx, "r1", lock.Fence{Epoch: 2, Nonce: "n2"}); err != nil {
		log.Fatal(err)
	}
	for e, err := range l.Effects(ctx, ledger.Query{Open: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Name, e.Key, e.State)
		receipt := ledger.Answer{Landed: true, Result: json.RawMessage(`"receipt 12"`), By: "Ann"}
		if err := ledger.Resolve(ctx, l, e.ID, receipt); err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range l.Effects(ctx, ledger.Query{ID: "7f3a"}) {
		fmt.Println(e.State, string(e.Result), e.AnsweredBy, err)
	}
	// Output:
	// at work: true
	// pay order 7 unknown
	// completed "receipt 12" Ann <nil>
}

// A backup of the ledger was restored. What was paid since is not in it, so the first attempt at a payment is in doubt
// until a person has looked.
func ExampleMemory_Raise() {
	ctx := context.Background()
	l := &ledger.Memory{DoubtFor: 6 * time.Hour} // for so long requests of before may come again
	if _, err := l.Raise(ctx, time.Date(2026, 3, 12, 10, 30, 0, 0, time.UTC)); err != nil {
		log.Fatal(err)
	}
	refund := ledger.Effect{
		ID: "7f3a", Orchestrator: "support", Session: "s", RunID: "r1", Intent: "refund", Name: "pay",
		Key: "order 7", Fence: lock.Fence{Epoch: time.Now().Add(time.Hour).UnixMicro(), Nonce: "n1"},
	}
	e, issued, err := l.Issue(ctx, refund, false)
	fmt.Println(issued, e.State, err)
	fmt.Println(e.Error)
	if err := ledger.Resolve(ctx, l, e.ID, ledger.Answer{By: "Ann"}); err != nil { // it was not paid
		log.Fatal(err)
	}
	refund.Attempts = e.Attempts
	e, issued, err = l.Issue(ctx, refund, true)
	fmt.Println(issued, e.State, err)
	// Output:
	// false unknown <nil>
	// the ledger was raised: an earlier attempt may be lost, with what was written since 2026-03-12T10:30:00Z
	// true issued <nil>
}

// NotDone says that the other side has refused, so the effect may be tried again.
func ExampleNotDone() {
	err := ledger.NotDone(errors.New("card declined"))
	fmt.Println(err, ledger.IsNotDone(fmt.Errorf("pay: %w", err)))
	// Output: card declined true
}

// Sums of different keys are not compared, so a new key does not make all arguments look changed.
func ExampleSameArgs() {
	fmt.Println(ledger.SameArgs("k1:aa", "k1:bb"), ledger.SameArgs("k1:aa", "k2:bb"))
	// Output: false true
}
