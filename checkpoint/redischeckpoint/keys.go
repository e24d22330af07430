package redischeckpoint

import (
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
)

// sessionKeys returns the keys of a session. They share one hash tag, so that one script can move them.
func (s *Store) sessionKeys(k checkpoint.Key) []string {
	base := s.prefix + redisstore.Tag(k.Orchestrator, k.Session)
	return []string{base + ":head", base + ":turns", base + ":runs", base + ":reqs"}
}

// An index lists sessions of one orchestrator that have, or may have, something in common.
type index struct {
	orchestrator string
	owing        bool // of those that owe a reply, not of all
}

func (s *Store) indexKeys(x index) []string {
	name := ":sessions"
	if x.owing {
		name = ":owing"
	}
	return redisstore.IndexKeys(s.prefix + redisstore.Tag(x.orchestrator) + name)
}
