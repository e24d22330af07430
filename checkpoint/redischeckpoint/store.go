package redischeckpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string        // of every key, [A-Za-z0-9_.:-]{1,64}; "" means "holdfast:"
	TTL    time.Duration // after how long without a lease a session that owes nothing expires, whole; 0 means never
}

// A Store is a [checkpoint.Store] on Redis.
type Store struct {
	redis  redisstore.Runner
	prefix string
	idle   int64 // ms; 0: sessions stay
}

var _ checkpoint.Store = (*Store)(nil)

// New returns a store on client, which stays the caller's: the store neither pings nor closes it.
// It panics if the prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		redis:  redisstore.Runner{Client: client, Invalid: checkpoint.ErrInvalid, Verdicts: verdicts},
		prefix: redisstore.Prefix("redischeckpoint", o.Prefix),
	}
	if o.TTL > 0 {
		s.idle = int64((o.TTL + time.Millisecond - 1) / time.Millisecond)
	}
	return s
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }

// Claim makes the caller the owner, and returns what the session holds, in one script.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.claim(ctx, k, r)
	if err != nil {
		return checkpoint.Claimed{}, fmt.Errorf("redischeckpoint: claim %q: %w", k.Session, err)
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := redisstore.Checked(ctx, k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	reply, err := s.redis.Run(ctx, claimScript, s.sessionKeys(k), r.Nonce, r.Owner, r.TTL.Microseconds(), r.RequestID, redisstore.Flag(r.Steal), s.idle)
	if err != nil {
		return checkpoint.Claimed{}, err
	}
	return claimed(k, r.Nonce, reply.Values)
}

// claimed reads what the claim script returned.
func claimed(k checkpoint.Key, nonce string, values []string) (c checkpoint.Claimed, err error) {
	const numbers = 4
	if len(values) < numbers {
		return c, fmt.Errorf("%w: reply of %d values", checkpoint.ErrInvalid, len(values))
	}
	var n [numbers]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(values[i], 10, 64); err != nil {
			return c, fmt.Errorf("%w: head: %w", checkpoint.ErrInvalid, err)
		}
	}
	var found []*checkpoint.Checkpoint
	for _, row := range rows(values[numbers:]) {
		cp, err := row.checkpoint()
		if err != nil {
			return c, err
		}
		found = append(found, &cp)
	}
	c = checkpoint.Claimed{
		Lease: checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: n[0], Nonce: nonce}},
		Born:  n[1], Summarized: int(n[2]), Delivered: int(n[3]),
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
func (s *Store) Renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) (lost []checkpoint.Lease, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateRenew(ttl, leases)); err != nil {
		return nil, fmt.Errorf("redischeckpoint: renew: %w", err)
	}
	calls := make([]redisstore.Call, len(leases))
	for i, l := range leases {
		calls[i] = redisstore.Call{Keys: s.sessionKeys(l.Key), Args: []any{l.Fence.Epoch, l.Fence.Nonce, ttl.Microseconds(), s.idle}}
	}
	var errs []error
	s.redis.RunAll(ctx, renewScript, calls, func(i int, _ redisstore.Reply, err error) {
		switch {
		case errors.Is(err, lock.ErrFenced):
			lost = append(lost, leases[i])
		case err != nil:
			errs = append(errs, fmt.Errorf("redischeckpoint: renew %q: %w", leases[i].Session, err))
		}
	})
	return lost, errors.Join(errs...)
}

// Mark raises counters or releases, in one script.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	err := redisstore.Checked(ctx, l.Validate(), m.Validate())
	if err == nil {
		_, err = s.redis.Run(ctx, markScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce, m.Summarized, m.Delivered, redisstore.Flag(m.Release), s.idle)
	}
	if err != nil {
		return fmt.Errorf("redischeckpoint: mark %q: %w", l.Session, err)
	}
	return nil
}

// Delete removes the session's keys at once, and then what the indexes know of it.
func (s *Store) Delete(ctx context.Context, k checkpoint.Key) error {
	err := redisstore.Checked(ctx, k.Validate())
	if err == nil {
		err = s.delete(ctx, k)
	}
	if err != nil {
		return fmt.Errorf("redischeckpoint: delete %q: %w", k.Session, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, k checkpoint.Key) error {
	keys := s.sessionKeys(k)
	born, err := s.redis.Run(ctx, bornScript, keys[:1])
	if err != nil {
		return err
	}
	// The tokens are read before the head is gone: see docs/decisions/0003-redis-layout.md.
	known, err := s.known(ctx, k)
	if err != nil {
		return err
	}
	gone, err := s.redis.Run(ctx, deleteScript, keys, born.Values[0])
	if err != nil || gone.Status != "OK" {
		return err // the life that was to be deleted is over, and the entries are the next one's
	}
	for index, token := range known {
		if err := s.drop(ctx, index, []redisstore.Entry{{Session: k.Session, Token: token}}); err != nil {
			return err
		}
	}
	return nil
}
