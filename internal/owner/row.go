package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A Lease is the right to write to one row.
type Lease struct {
	ID    string
	Fence lock.Fence
}

// A Request asks for the ownership of a row.
type Request struct {
	// Owner is the name of the process: see Process.Name.
	Owner string
	// Nonce becomes the nonce of the fence. A claim that finds its own nonce has already succeeded.
	Nonce string
	// TTL is how long the lease lasts, by the store's clock, unless it is renewed.
	TTL time.Duration

	// From takes the row from the owner with this very fence, even if its lease is live, and from no other owner. The
	// zero Fence asks for a free row.
	From lock.Fence
}

// A Grant is the answer to a claim.
type Grant struct {
	Fence lock.Fence

	// First says that the claim began the row's life, and that nothing is kept in it.
	First bool
}

// A Row is a row with a fence, for one call: a session, say. It remembers what else the store said at the last claim
// that was granted. Its methods are not called concurrently.
type Row interface {
	// Claim makes the process the owner of the row. If the row has another owner, Claim returns a *lock.HeldError. If
	// Claim returns a Fence beside its error, the claim was granted, and the row is damaged: the fence is good for
	// Release and Remove.
	Claim(ctx context.Context, r Request) (Grant, error)

	// Release gives the row back. If the row was lost, Release does nothing.
	Release(ctx context.Context, f lock.Fence) error

	// Remove removes the row.
	Remove(ctx context.Context, f lock.Fence) error
}

// Rows are all rows of a Process.
type Rows interface {
	// Renew makes each lease that is still the latest end ttl from now, and returns the other leases. With an
	// *UnknownError, the leases that the error does not name were extended. With any other error, nothing is known of
	// the leases that are not returned.
	Renew(ctx context.Context, ttl time.Duration, leases []Lease) (lost []Lease, err error)

	// Held returns the rows of the list that a live lease owns, and the owner of each. With an error, owners may be
	// incomplete.
	Held(ctx context.Context, ids []string) (owners map[string]string, err error)
}

// An UnknownError says of which leases a Renew does not know whether they were extended.
type UnknownError struct {
	Leases []Lease
	// Err says why, of the first of them.
	Err error
}

// Error returns what Err says, and the number of the leases.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("leases not known to be extended: %d: %v", len(e.Leases), e.Err)
}

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }
