package redischeckpoint

import (
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// sessionKeys returns the one key of a session.
func (s *Store) sessionKeys(k checkpoint.Key) []string {
	return []string{s.prefix + redisstore.Tag(k.Orchestrator, k.Session) + ":session"}
}

// An index lists sessions of one orchestrator: all with a settled turn, or all that owe a reply. An entry may be stale.
type index struct {
	orchestrator string
	// owing selects the index of the sessions that owe a reply.
	owing bool
}

func (s *Store) indexKey(x index) string {
	name := ":sessions"
	if x.owing {
		name = ":owing"
	}
	return s.prefix + redisstore.Tag(x.orchestrator) + name
}
