package redissnapshot

import (
	"context"
	"crypto/rand"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// mostEntries is how often a Begin enters the index at most. A second time is rare. If Begin needs more, the clocks are
// wrong.
const mostEntries = 8

// Begin enters the session in the index and then writes the run, in one script each.
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (found *snapshot.Run, err error) {
	defer redisstore.Wrap(&err, "begin the run of", r.Session)
	if err := redisstore.Checked(ctx, r.Validate()); err != nil {
		return nil, err
	}
	reply, err := s.redis.Entered(ctx, s.indexKey(r.Orchestrator), r.Session, mostEntries, s.gone.take(r.Orchestrator),
		func(entry, seen string) (redisstore.Reply, error) {
			args := append([]any{rand.Text(), entry, seen}, encode(r)...)
			return s.redis.Run(ctx, beginScript, s.runKeys(r.Key), args...)
		})
	if err != nil {
		_, err = judge(r.Key, err)
		return nil, err
	}
	if reply.Status != "FOUND" {
		return nil, nil
	}
	other, err := decode(r.Key, reply.Values)
	if err != nil {
		return nil, err
	}
	return &other, nil
}
