package redischeckpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Held asks each head, all in one pipeline to each node.
func (s *Store) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (owners map[string]string, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateHeld(orchestrator, sessions)); err != nil {
		return nil, fmt.Errorf("redis: held: %w", err)
	}
	calls := make([]redisstore.Call, len(sessions))
	for i, session := range sessions {
		k := checkpoint.Key{Orchestrator: orchestrator, Session: session}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(k)}
	}
	owners = make(map[string]string)
	var errs []error
	s.redis.RunAll(ctx, heldScript, calls, func(i int, r redisstore.Reply, err error) {
		switch {
		// The next claim of the session will report the damage.
		case errors.Is(damaged(checkpoint.Key{}, err), checkpoint.ErrDamaged):
		case err != nil:
			k := checkpoint.Key{Orchestrator: orchestrator, Session: sessions[i]}
			errs = append(errs, redisstore.AwayFrom(ctx, k, "", fmt.Errorf("redis: held: %w", err)))
		case r.Value(0) != "":
			owners[sessions[i]] = r.Value(0)
		}
	})
	return owners, one(errs)
}

// one returns an error for all: one that is about more than a session that is away, if there is one.
func one(errs []error) error {
	for _, err := range errs {
		if !redisstore.IsAway(err) {
			return err
		}
	}
	return errors.Join(errs[:min(len(errs), 1)]...)
}
