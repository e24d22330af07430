package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A backup was restored. Before traffic is let in, all owners of before are ended.
func ExampleRaiser() {
	ctx := context.Background()
	runs, turns, effects := new(snapshot.Memory), new(checkpoint.Memory), new(ledger.Memory)
	k := checkpoint.Key{Orchestrator: "bot", Session: "s"}
	r := checkpoint.ClaimRequest{Owner: "a process", Nonce: "n1", TTL: time.Minute}
	before, err := turns.Claim(ctx, k, r)
	if err != nil {
		log.Fatal(err)
	}
	for _, store := range []lock.Raiser{runs, turns, effects} { // in this order
		ended, err := store.Raise(ctx, time.Now().Add(-time.Hour))
		fmt.Println(ended, err)
	}
	cp := checkpoint.Checkpoint{RunID: "r1", State: []byte(`{}`)}
	err = turns.Append(ctx, before.Lease, cp, checkpoint.AppendOptions{})
	fmt.Println(errors.Is(err, lock.ErrFenced))
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 0 <nil>
	// true
}
