package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
)

// rows are the sessions of an orchestrator, as rows with a fence. They are all that ownership knows of a checkpoint
// store.
type rows struct {
	store        checkpoint.Store
	orchestrator string
}

// Renew implements owner.Rows.
func (r *rows) Renew(ctx context.Context, ttl time.Duration, leases []owner.Lease) (lost []owner.Lease, err error) {
	all := make([]checkpoint.Lease, len(leases))
	for i, l := range leases {
		all[i] = checkpoint.Lease{Key: checkpoint.Key{Orchestrator: r.orchestrator, Session: l.ID}, Fence: l.Fence}
	}
	gone, err := r.store.Renew(ctx, ttl, all)
	if partial, ok := errors.AsType[*checkpoint.RenewError](err); ok {
		err = &owner.UnknownError{Leases: ofRows(partial.Unknown), Err: partial.Err}
	}
	return ofRows(gone), err
}

func ofRows(leases []checkpoint.Lease) []owner.Lease {
	all := make([]owner.Lease, len(leases))
	for i, l := range leases {
		all[i] = owner.Lease{ID: l.Session, Fence: l.Fence}
	}
	return all
}

// Held implements owner.Rows.
func (r *rows) Held(ctx context.Context, sessions []string) (owners map[string]string, err error) {
	return r.store.Held(ctx, r.orchestrator, sessions)
}

// An owned session is the row that one call owns.
type owned struct {
	owner.Session
	rows *rows

	// Grant is the result of the last claim.
	Grant checkpoint.Claimed

	// request is what the next claim asks for beside the ownership: the turn that answered a request, or another Born.
	request checkpoint.ClaimRequest
}

// acquire makes this process the owner of a session: see owner.Session.Acquire.
func (o *owned) acquire(ctx context.Context, p *owner.Process, session, requestID string, wait bool) error {
	o.request.RequestID = requestID
	return o.Acquire(ctx, p, session, o, wait)
}

// claimAnew replaces the fence of a session that is ours by a newer fence. If born is not 0, and no turn is settled, it
// also replaces the session's Born.
func (o *owned) claimAnew(born int64) error {
	o.request = checkpoint.ClaimRequest{Born: born}
	defer func() { o.request.Born = 0 }()
	return o.ClaimAnew()
}

// Claim implements owner.Row.
func (o *owned) Claim(ctx context.Context, r owner.Request) (owner.Grant, error) {
	request := o.request
	request.Owner, request.Nonce, request.TTL, request.From = r.Owner, r.Nonce, r.TTL, r.From
	c, err := o.rows.store.Claim(ctx, checkpoint.Key{Orchestrator: o.rows.orchestrator, Session: o.ID()}, request)
	if err != nil && (!errors.Is(err, checkpoint.ErrDamaged) || c.Fence == (lock.Fence{})) {
		return owner.Grant{}, err
	}
	o.Grant = c
	return owner.Grant{Fence: c.Fence, First: c.Last == nil && c.Born == c.Fence.Epoch}, err
}

// Release implements owner.Row.
func (o *owned) Release(ctx context.Context, f lock.Fence) error {
	return o.rows.store.Mark(ctx, o.lease(f), checkpoint.Marks{Release: true})
}

// Remove implements owner.Row.
func (o *owned) Remove(ctx context.Context, f lock.Fence) error {
	return o.rows.store.Delete(ctx, o.lease(f))
}

func (o *owned) lease(f lock.Fence) checkpoint.Lease {
	return checkpoint.Lease{Key: o.Grant.Key, Fence: f}
}
