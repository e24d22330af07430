package redischeckpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key: [A-Za-z0-9_.:-]{1,64}. "" means "holdfast:".
	Prefix string
	// TTL is how long after its lease a session that owes nothing expires, whole. 0 means never.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store. Such a server
// would delete parts of sessions when its memory is full. The message names its policy.
var ErrEviction = redisstore.ErrEviction

// A Store is a [checkpoint.Store] on Redis.
type Store struct {
	redis  redisstore.Runner
	prefix string
	idle   int64 // ms; 0: sessions stay
	// failed is the number of the last mark with a Retry.
	failed atomic.Int64

	// unsettled is idle for sessions without a settled turn, in ms.
	unsettled int64

	sweeper sweeper
}

var (
	_ checkpoint.Store   = (*Store)(nil)
	_ checkpoint.Watcher = (*Store)(nil)
)

// New returns a store on client, which stays the caller's: the store neither pings nor closes it.
// It panics if the prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		redis:  redisstore.Runner{Client: client, Verdicts: verdicts, Refused: checkpoint.ErrRefused},
		prefix: redisstore.Prefix("redischeckpoint", o.Prefix),
	}
	if o.TTL > 0 {
		s.idle = ceil(o.TTL, time.Millisecond)
	}
	s.unsettled = ceil(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled), time.Millisecond)
	if s.idle > 0 {
		s.unsettled = min(s.unsettled, s.idle)
	}
	return s
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }

// Claim makes the caller the owner, and returns the data of the session, in one script.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.claim(ctx, k, r)
	if err != nil {
		return c, fmt.Errorf("redischeckpoint: claim %q: %w", k.Session, err)
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := redisstore.Checked(ctx, k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	s.sweeper.serves(k.Orchestrator)
	from := ""
	if r.From != (lock.Fence{}) {
		from = strconv.FormatInt(r.From.Epoch, 10)
	}
	reply, err := s.redis.Run(ctx, claimScript, s.sessionKeys(k), r.Nonce, r.Owner, r.TTL.Microseconds(), r.RequestID,
		from, r.From.Nonce, s.idle, s.unsettled, r.Born)
	switch {
	case err != nil:
		return damagedClaim(k, r.Nonce, err)
	case reply.Status == "HELD":
		return checkpoint.Claimed{}, held(reply.Values)
	}
	c, err := claimed(k, r.Nonce, reply.Values)
	if err != nil {
		c = checkpoint.Claimed{Lease: c.Lease}
	}
	return c, err
}

// damagedClaim returns the lease under which a session may be deleted, if err says that the session is damaged.
func damagedClaim(k checkpoint.Key, nonce string, err error) (c checkpoint.Claimed, _ error) {
	fault, ok := errors.AsType[*redisstore.Fault](err)
	if !ok {
		return c, err
	}
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: time.Now().UnixMicro(), Nonce: nonce}}
	if len(fault.Told) > 0 {
		if epoch, err := strconv.ParseInt(fault.Told[0], 10, 64); err == nil {
			c.Fence.Epoch = epoch
		}
	}
	return c, checkpoint.Damaged(k, fault)
}

// damaged turns the Fault of a script into a *checkpoint.DamagedError of the session.
func damaged(k checkpoint.Key, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return checkpoint.Damaged(k, fault)
	}
	return err
}

// held returns the error that names the owner, from the values of the claim script.
func held(values []string) error {
	if len(values) != 3 {
		return fmt.Errorf("%w: reply of %d values", checkpoint.ErrDamaged, len(values))
	}
	epoch, err := strconv.ParseInt(values[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: head: %w", checkpoint.ErrDamaged, err)
	}
	return &checkpoint.HeldError{Owner: values[0], Fence: lock.Fence{Epoch: epoch, Nonce: values[2]}}
}

// claimed reads the values of the claim script.
func claimed(k checkpoint.Key, nonce string, values []string) (c checkpoint.Claimed, err error) {
	const numbers = 5
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: nonce}}
	if len(values) < numbers {
		return c, checkpoint.Damaged(k, fmt.Errorf("reply of %d values", len(values)))
	}
	var n [numbers]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(values[i], 10, 64); err != nil {
			return c, checkpoint.Damaged(k, fmt.Errorf("head: %w", err))
		}
	}
	c.Fence.Epoch = n[0]
	var found []*checkpoint.Checkpoint
	for _, row := range rows(values[numbers:]) {
		cp, err := row.checkpoint(k)
		if err != nil {
			return c, err
		}
		found = append(found, &cp)
	}
	c = checkpoint.Claimed{
		Lease: checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: n[0], Nonce: nonce}},
		Born:  n[1], Summarized: int(n[2]), Delivered: int(n[3]), Failed: int(n[4]),
	}
	if len(found) > 0 {
		c.Last = found[0]
	}
	if len(found) > 1 {
		c.Answered = found[1]
	}
	return c, nil
}

// Renew extends each lease by a script of its own, all in one round trip.
func (s *Store) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateRenew(ttl, leases)); err != nil {
		return nil, fmt.Errorf("redischeckpoint: renew: %w", err)
	}
	calls := make([]redisstore.Call, len(leases))
	for i, l := range leases {
		args := []any{l.Fence.Epoch, l.Fence.Nonce, ttl.Microseconds(), s.idle, s.unsettled}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(l.Key), Args: args}
	}
	var errs []error
	s.redis.RunAll(ctx, renewScript, calls, func(i int, _ redisstore.Reply, err error) {
		switch {
		case errors.Is(err, lock.ErrFenced):
			lost = append(lost, leases[i])
		case err != nil:
			errs = append(errs,
				fmt.Errorf("redischeckpoint: renew %q: %w", leases[i].Session, damaged(leases[i].Key, err)))
		}
	})
	return lost, errors.Join(errs...)
}

// Held asks each head, all in one pipeline.
func (s *Store) Held(ctx context.Context, orchestrator string, sessions []string) (held []string, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateHeld(orchestrator, sessions)); err != nil {
		return nil, fmt.Errorf("redischeckpoint: held: %w", err)
	}
	calls := make([]redisstore.Call, len(sessions))
	for i, session := range sessions {
		k := checkpoint.Key{Orchestrator: orchestrator, Session: session}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(k)}
	}
	var errs []error
	s.redis.RunAll(ctx, heldScript, calls, func(i int, r redisstore.Reply, err error) {
		switch {
		// The next claim of the session will report the damage.
		case errors.Is(damaged(checkpoint.Key{}, err), checkpoint.ErrDamaged):
		case err != nil:
			errs = append(errs, fmt.Errorf("redischeckpoint: held %q: %w", sessions[i], err))
		case r.Values[0] == "1":
			held = append(held, sessions[i])
		}
	})
	return held, errors.Join(errs...)
}

// Mark raises counters, counts a failed delivery, or releases, in one script.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	err := redisstore.Checked(ctx, l.Validate(), m.Validate())
	if err == nil {
		_, err = s.redis.Run(ctx, markScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce,
			m.Summarized, m.Delivered, redisstore.Flag(m.Release), s.idle, s.unsettled,
			ceil(m.Retry, time.Microsecond), s.attempt(m))
	}
	if err != nil {
		return fmt.Errorf("redischeckpoint: mark %q: %w", l.Session, damaged(l.Key, err))
	}
	return nil
}

// attempt numbers the marks with a Retry, so that a copy of a mark is not counted. Another Store of this process may
// have marked before with the same lease: because of the clock, the numbers grow then too.
func (s *Store) attempt(m checkpoint.Marks) int64 {
	if m.Retry == 0 {
		return 0
	}
	for {
		last := s.failed.Load()
		next := max(last+1, time.Now().UnixMicro())
		if s.failed.CompareAndSwap(last, next) {
			return next
		}
	}
}

// ceil returns d in units, rounded up.
func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// Delete removes the session's key in one script, and then its entries in the indexes.
func (s *Store) Delete(ctx context.Context, l checkpoint.Lease) error {
	err := redisstore.Checked(ctx, l.Validate())
	if err == nil {
		err = s.delete(ctx, l)
	}
	if err != nil {
		return fmt.Errorf("redischeckpoint: delete %q: %w", l.Session, damaged(l.Key, err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, l checkpoint.Lease) error {
	// The tokens are read before the head is gone: see docs/decisions/0003-redis-layout.md.
	known, err := s.known(ctx, l.Key)
	if err != nil {
		return err
	}
	if _, err := s.redis.Run(ctx, deleteScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce); err != nil {
		return err // also ErrFenced: then the entries are of another life of the session
	}
	for index, token := range known {
		err := s.drop(ctx, index, []redisstore.Entry{{Session: l.Session, Token: token}})
		// The session is gone, so the next reader of the entry drops it.
		if err != nil && !errors.Is(err, checkpoint.ErrRefused) {
			return err
		}
	}
	return nil
}
