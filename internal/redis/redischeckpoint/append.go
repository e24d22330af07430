package redischeckpoint

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Append settles a turn in one script. Before a session's first turn, it enters the session in the index of sessions.
// If a turn is owed and none was before, it enters the session in the index of owing sessions.
func (s *Store) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if err := s.append(ctx, l, cp, o); err != nil {
		return fmt.Errorf("redis: append turn %d of %q: %w", cp.Turn, l.Session, damaged(l.Key, err))
	}
	return nil
}

func (s *Store) append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	keep, err := o.Kept()
	if err := redisstore.Checked(ctx, l.Validate(), cp.Validate(), err); err != nil {
		return err
	}
	rest, err := encode(cp)
	if err != nil {
		return err
	}
	if cp.Turn == 0 {
		if _, err := s.enter(ctx, index{l.Orchestrator, false}, l.Session); err != nil {
			return err
		}
	}
	settle := func(owing string) (status string, err error) {
		r, err := s.redis.Run(ctx, appendScript, s.sessionKeys(l.Key), l.Fence.Epoch, l.Fence.Nonce,
			cp.Turn, cp.RunID, cp.RequestID, rest, []byte(cp.State), []byte(cp.Payload), keep,
			redisstore.Flag(o.Owes), redisstore.Flag(o.Release), owing, s.idle)
		return r.Status, err
	}
	status, err := settle("")
	if err == nil && status == "INDEX" {
		var owing string
		if owing, err = s.enter(ctx, index{l.Orchestrator, true}, l.Session); err == nil {
			status, err = settle(owing)
		}
	}
	if err == nil && status == "KNOWN" {
		err = o.Known()
	}
	return err
}
