package snapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A process dies in the middle of a turn. Another process adopts the run and continues from the last save. It deletes
// the run when the turn is settled.
func Example() {
	ctx := context.Background()
	store := new(snapshot.Memory)
	session := snapshot.Key{Orchestrator: "refund-bot", Session: "A-1042"}

	first := snapshot.Run{
		Key: session, ID: "run-1", Attempt: 1, Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "first"}, Payload: json.RawMessage(`{"input":"refund me"}`),
	}
	if _, err := store.Begin(ctx, first); err != nil {
		fmt.Println(err)
		return
	}
	first.Seq, first.Payload = 1, json.RawMessage(`{"input":"refund me","classified":true}`)
	if err := store.Save(ctx, first); err != nil {
		fmt.Println(err)
		return
	}

	second := lock.Fence{Epoch: 2, Nonce: "second"}
	run, err := store.Adopt(ctx, session, second, 3)
	fmt.Println(run.ID, run.Attempt, string(run.Payload), err)

	first.Seq = 2 // the first process was not dead, only late
	fmt.Println(errors.Is(store.Save(ctx, first), lock.ErrFenced))
	fmt.Println(store.Delete(ctx, session, run.ID, second))
	// Output:
	// run-1 2 {"input":"refund me","classified":true} <nil>
	// true
	// <nil>
}

// Where both stores are in one database, one transaction appends the turn and deletes its run.
func ExampleJoiner() {
	ctx := context.Background()
	turns, runs := new(checkpoint.Memory), new(snapshot.Memory)
	settle := runs.Join(turns) // nil for stores that cannot write in one transaction

	session := checkpoint.Key{Orchestrator: "refund-bot", Session: "A-1042"}
	owned, err := turns.Claim(ctx, session, checkpoint.ClaimRequest{Owner: "me", Nonce: "n", TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := snapshot.Run{
		Key: session, ID: "run-1", Attempt: 1, Status: snapshot.Running,
		Fence: owned.Fence, Payload: json.RawMessage(`{"input":"refund me"}`),
	}
	if _, err := runs.Begin(ctx, run); err != nil {
		fmt.Println(err)
		return
	}
	turn := checkpoint.Checkpoint{Turn: 0, RunID: run.ID, State: json.RawMessage(`{"refunded":true}`), Signature: "v1"}
	fmt.Println(settle(ctx, owned.Lease, turn, checkpoint.AppendOptions{Release: true}))
	for r, err := range runs.Runs(ctx, snapshot.Query{Key: run.Key}) {
		fmt.Println(r.ID, "is in flight", err)
	}
	// Output: true <nil>
}

// A save that carries effects of its run: the intent to act is durable with the state that it follows from.
func ExampleEffectJoiner() {
	runs, effects := new(snapshot.Memory), new(ledger.Memory)
	save := runs.JoinEffects(effects, nil) // nil if they are two databases
	ctx, fence := context.Background(), lock.Fence{Epoch: 1, Nonce: "n"}
	r := snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: "s"}, ID: "r", Status: snapshot.Running, Fence: fence,
		Payload: json.RawMessage(`{}`),
	}
	if _, err := runs.Begin(ctx, r); err != nil {
		fmt.Println(err)
		return
	}
	pay := ledger.Effect{ID: "e", Orchestrator: "bot", Session: "s", RunID: "r", Name: "pay", Fence: fence}
	r.Seq++
	cargo := snapshot.Cargo{Batch: ledger.Batch{Issue: []ledger.Effect{pay}}}
	taken, err := save(ctx, r, cargo)
	fmt.Println(taken, err)
	r.Seq++
	taken, err = save(ctx, r, cargo) // the effect is known: nothing is written
	fmt.Println(taken, err)
	// Output:
	// true <nil>
	// false <nil>
}
