package redischeckpoint

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Append settles a turn in one script. Before a session's first turn, it enters the session in the index of sessions.
// If a turn is owed and none was before, it enters the session in the index of owing sessions. If the session gets a
// label, it enters the session in the index of labels.
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
	labels, wrong := o.Relabeled()
	if err := redisstore.Checked(ctx, l.Validate(), cp.Validate(), err, wrong); err != nil {
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
	args := []any{
		l.Fence.Epoch, l.Fence.Nonce, cp.Turn, cp.RunID, cp.RequestID, rest, []byte(cp.State), []byte(cp.Payload), keep,
		redisstore.Flag(o.Owes), redisstore.Flag(o.Release), "", s.idle, redisstore.Flag(labels != nil),
	}
	const owing, fixed = 11, 14
	for _, place := range places(labels) {
		args = append(args, "", place)
	}
	r, err := s.redis.Run(ctx, appendScript, s.sessionKeys(l.Key), args...)
	for tries := 0; err == nil && tries < 2 && (r.Status == "INDEX" || r.Status == "LABEL"); tries++ {
		if r.Status == "INDEX" {
			args[owing], err = s.enter(ctx, index{l.Orchestrator, true}, l.Session)
		} else {
			err = s.labelMissing(ctx, l, r.Values, args[fixed:])
		}
		if err == nil {
			r, err = s.redis.Run(ctx, appendScript, s.sessionKeys(l.Key), args...)
		}
	}
	switch {
	case err != nil:
		return err
	case r.Status == "KNOWN":
		return o.Known()
	case r.Status != "OK":
		return fmt.Errorf("append returned %q", r.Status)
	}
	s.unlabel(ctx, l.Key, r.Values)
	return nil
}

// labelMissing enters a session at places, and fills in their tokens in the pairs of token and place.
func (s *Store) labelMissing(ctx context.Context, l checkpoint.Lease, places []string, pairs []any) error {
	tokens, err := s.label(ctx, l, places)
	for i := 0; i+1 < len(pairs); i += 2 {
		if token := tokens[pairs[i+1].(string)]; token != "" {
			pairs[i] = token
		}
	}
	return err
}
