package redissnapshot

import (
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// runKeys returns the one key of a session.
func (s *Store) runKeys(k snapshot.Key) []string {
	return []string{s.prefix + redisstore.Tag(k.Orchestrator, k.Session) + ":run"}
}

// indexKey returns the key of the index of an orchestrator's runs.
func (s *Store) indexKey(orchestrator string) string {
	return s.prefix + redisstore.Tag(orchestrator) + ":inflight"
}
