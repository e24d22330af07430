package chaostest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// forgetsFence forgets the fence of a session whose run was deleted. Then a late Begin brings back a run that was told
// as failed, or a run whose turn has been settled and pruned.
type forgetsFence struct{ *snapshot.Memory }

func (s forgetsFence) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := s.Memory.Delete(ctx, k, id, f)
	if err == nil {
		time.Sleep(2 * time.Nanosecond) // longer than it remembers
		_, err = s.Sweep(ctx, 0)
	}
	return err
}

// saysForgotten settles a turn, but leaves its run in flight.
type saysForgotten struct{ *snapshot.Memory }

func (saysForgotten) Join(turns checkpoint.Store) snapshot.Settle {
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		err := turns.Append(ctx, l, cp, o)
		return err == nil, err
	}
}

// forgetsBoth settles a turn, and forgets the fence of the session.
type forgetsBoth struct{ *snapshot.Memory }

func (s forgetsBoth) Join(turns checkpoint.Store) snapshot.Settle {
	settle := s.Memory.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		forgotten, err := settle(ctx, l, cp, o)
		if err == nil {
			time.Sleep(2 * time.Nanosecond) // longer than it remembers
			_, err = s.Sweep(ctx, 0)
		}
		return forgotten, err
	}
}

// deletesForAnybody removes a session under any owner. Then a late Delete removes turns of the next life.
type deletesForAnybody struct{ checkpoint.Store }

func (s deletesForAnybody) Delete(ctx context.Context, l checkpoint.Lease) error {
	err := s.Store.Delete(ctx, l)
	if errors.Is(err, lock.ErrFenced) {
		err = s.Store.Delete(ctx, s.seize(ctx, l.Key))
	}
	return err
}

// seize takes a session from any owner.
func (s deletesForAnybody) seize(ctx context.Context, k checkpoint.Key) checkpoint.Lease {
	r := checkpoint.ClaimRequest{Owner: "late", Nonce: "late", TTL: time.Minute}
	c, err := s.Claim(ctx, k, r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		r.From = held.Fence
		c, _ = s.Claim(ctx, k, r)
	}
	return c.Lease
}

// takesFromAnybody ignores the value of From and takes the session from any owner. Then a late claim of an Abandon that
// is over fences off the owner of another turn.
type takesFromAnybody struct{ checkpoint.Store }

func (s takesFromAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && r.From != (lock.Fence{}) {
		r.From = held.Fence
		return s.Store.Claim(ctx, k, r)
	}
	return c, err
}

// settlesForAnybody gives the latest lease to an owner that was fenced off.
type settlesForAnybody struct {
	checkpoint.Store
	latest map[checkpoint.Key]checkpoint.Lease
}

func (s settlesForAnybody) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil {
		s.latest[k] = c.Lease
	}
	return c, err
}

func (s settlesForAnybody) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	err := s.Store.Append(ctx, l, cp, o)
	if errors.Is(err, lock.ErrFenced) {
		for last, err := range s.Turns(ctx, l.Key, checkpoint.Newest) {
			if err != nil {
				return err
			}
			cp.Turn = last.Turn + 1
			break
		}
		return s.Store.Append(ctx, s.latest[l.Key], cp, o)
	}
	return err
}

// deletesNothing says that it has removed a session, but keeps it.
type deletesNothing struct{ checkpoint.Store }

func (s deletesNothing) Delete(ctx context.Context, l checkpoint.Lease) error {
	return s.Mark(ctx, l, checkpoint.Marks{Release: true})
}

// forgetsMarks says that it has noted a delivery, but forgets it.
type forgetsMarks struct{ checkpoint.Store }

func (s forgetsMarks) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	m.Delivered = 0
	return s.Store.Mark(ctx, l, m)
}

// skipsDeliveries tells a new owner that the older turns are delivered.
type skipsDeliveries struct{ checkpoint.Store }

func (s skipsDeliveries) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil && c.Last != nil {
		c.Delivered = max(c.Delivered, c.Last.Turn)
	}
	return c, err
}

// fencesOwners refuses the tenth Save of each session, as if another owner had taken over.
type fencesOwners struct {
	snapshot.Store
	saves map[snapshot.Key]int
}

func (s fencesOwners) Save(ctx context.Context, r snapshot.Run) error {
	if s.saves[r.Key]++; s.saves[r.Key] == 10 {
		return lock.ErrFenced
	}
	return s.Store.Save(ctx, r)
}
