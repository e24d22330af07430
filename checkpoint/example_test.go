package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var session = checkpoint.Key{Orchestrator: "refund-bot", Session: "A-1042"}

func claim(nonce string) checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "pod-7", Nonce: nonce, TTL: 30 * time.Second}
}

// takeover returns a request for a session that another owns.
func takeover(nonce string, from lock.Fence) checkpoint.ClaimRequest {
	r := claim(nonce)
	r.From = from
	return r
}

// A turn: claim the session, settle the next turn, and give the session back.
func Example() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	for _, run := range []string{"run-1", "run-2"} {
		c, err := store.Claim(ctx, session, claim(run))
		if err != nil {
			fmt.Println(err)
			return
		}
		cp := checkpoint.Checkpoint{RunID: run, State: json.RawMessage(`{"by":"` + run + `"}`)}
		if c.Last != nil {
			cp.Turn = c.Last.Turn + 1
		}
		if err := store.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Release: true}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for cp, err := range store.Turns(ctx, session, checkpoint.Newest) {
		fmt.Println(cp.Turn, string(cp.State), err)
	}
	// Output:
	// 1 {"by":"run-2"} <nil>
	// 0 {"by":"run-1"} <nil>
}

// A process was paused for so long that another took its session over. When it goes on, nothing that it does counts.
func ExampleStore_fenced() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	paused, _ := store.Claim(ctx, session, claim("paused"))
	owner, _ := store.Claim(ctx, session, takeover("owner", paused.Fence)) // or, when the lease has expired, a claim
	turn := checkpoint.Checkpoint{Turn: 0, State: json.RawMessage(`{}`)}

	turn.RunID = "owner's"
	fmt.Println(store.Append(ctx, owner.Lease, turn, checkpoint.AppendOptions{}))
	turn.RunID = "paused one's"
	err := store.Append(ctx, paused.Lease, turn, checkpoint.AppendOptions{})
	fmt.Println(errors.Is(err, lock.ErrFenced))
	// Output:
	// <nil>
	// true
}

// A process wants to end a session that another process works on. The refused claim names the owner, and the next claim
// takes the session from that owner and from no other.
func ExampleHeldError() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	owner, _ := store.Claim(ctx, session, claim("owner"))
	_, err := store.Claim(ctx, session, claim("operator"))
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		fmt.Println(held.Owner, held.Fence == owner.Fence)
		c, err := store.Claim(ctx, session, takeover("operator", held.Fence))
		fmt.Println(err, store.Delete(ctx, c.Lease))
	}
	_, err = store.Claim(ctx, session, takeover("late", owner.Fence))
	fmt.Println(errors.Is(err, lock.ErrHeld))
	// Output:
	// pod-7 true
	// <nil> <nil>
	// true
}

// The reply of an Append was lost. The same call again says what became of it, and settles nothing twice.
func ExampleStore_repeat() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	c, _ := store.Claim(ctx, session, claim("n"))
	turn := checkpoint.Checkpoint{RunID: "run-1", State: json.RawMessage(`{}`)}
	for range 2 {
		fmt.Println(store.Append(ctx, c.Lease, turn, checkpoint.AppendOptions{Release: true}))
	}
	_, err := checkpoint.Load(ctx, store, session, 1)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// checkpoint: not found
}

// Two owners, one after the other, finished one run, with different results. The late owner asks to be told, and reads
// the result that counts.
func ExampleAppendOptions_fresh() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	late, _ := store.Claim(ctx, session, claim("late"))
	owner, _ := store.Claim(ctx, session, takeover("owner", late.Fence))
	for _, o := range []checkpoint.Claimed{owner, late} {
		turn := checkpoint.Checkpoint{RunID: "run-1", State: json.RawMessage(`{"by":"` + o.Fence.Nonce + `"}`)}
		fmt.Println(store.Append(ctx, o.Lease, turn, checkpoint.AppendOptions{Fresh: true}))
	}
	kept, err := checkpoint.Load(ctx, store, session, checkpoint.Newest)
	fmt.Println(kept.RunID, string(kept.State), err)
	// Output:
	// <nil>
	// checkpoint: turn already settled
	// run-1 {"by":"owner"} <nil>
}

// An owner is refused to others while it beats. When its beats have stood still for long enough, its session is taken
// from it, though its lease goes on.
func ExampleHeldError_beats() {
	ctx := context.Background()
	store := new(checkpoint.Memory)

	dead, _ := store.Claim(ctx, session, claim("dead"))
	before, _ := store.Beat(ctx, "pod-7")
	// ... a process that wants the session looks again, some seconds later
	after, _ := store.Beat(ctx, "")
	_, err := store.Claim(ctx, session, claim("next"))
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && after[held.Owner] == before[held.Owner] {
		_, err = store.Claim(ctx, session, takeover("next", held.Fence))
	}
	fmt.Println(err)
	fmt.Println(store.Mark(ctx, dead.Lease, checkpoint.Marks{Delivered: 1}))
	// Output:
	// <nil>
	// another owner has taken over
}
