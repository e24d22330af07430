package redisinbox

import (
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// boxKeys returns the one key of the items of a kind in a session.
func (s *Store) boxKeys(k inbox.Key, kind inbox.Kind) []string {
	return []string{s.prefix + redisstore.Tag(k.Orchestrator, k.Session) + ":inbox:" + string(kind)}
}

// indexKey returns the key of the index of the sessions that have items of a kind.
func (s *Store) indexKey(orchestrator string, kind inbox.Kind) string {
	return s.prefix + redisstore.Tag(orchestrator) + ":inbox:" + string(kind)
}
