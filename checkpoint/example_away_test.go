package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// A clustered store is on two nodes, of which the second is away. It has the sessions whose names begin with "far".
type clustered struct{ *checkpoint.Memory }

var errNode = errors.New("node 10.0.0.7: connection refused")

func (clustered) Renew(_ context.Context, _ time.Duration, leases []checkpoint.Lease) ([]checkpoint.Lease, error) {
	return nil, &checkpoint.RenewError{Unknown: leases[1:], Err: errNode}
}

func (clustered) Sessions(_ context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		far := checkpoint.Key{Orchestrator: q.Orchestrator, Session: "far"}
		_ = yield(far.Session, &checkpoint.AwayError{Key: far, Err: errNode}) && yield("near", nil)
	}
}

// A loop over sessions goes on after what cannot be reached now.
func ExampleAwayError() {
	for session, err := range (clustered{}).Sessions(context.Background(), checkpoint.SessionQuery{}) {
		if away, ok := errors.AsType[*checkpoint.AwayError](err); ok {
			fmt.Println(session, "is left out:", away.Err)
			continue
		}
		fmt.Println(session, "is listed")
	}
	// Output:
	// far is left out: node 10.0.0.7: connection refused
	// near is listed
}

// What Renew neither returns nor names was extended.
func ExampleRenewError() {
	leases := []checkpoint.Lease{{Key: checkpoint.Key{Session: "near"}}, {Key: checkpoint.Key{Session: "far"}}}
	lost, err := (clustered{}).Renew(context.Background(), 30*time.Second, leases)
	partial, _ := errors.AsType[*checkpoint.RenewError](err)
	fmt.Println(len(lost), "lost, unknown:", partial.Unknown[0].Session)
	fmt.Println(err)
	// Output:
	// 0 lost, unknown: far
	// checkpoint: leases not known to be extended: 1: node 10.0.0.7: connection refused
}
