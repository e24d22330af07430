package redischeckpoint

import (
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// What would end a hash tag, or blur where a name ends, is written as in a URL.
var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "{", "%7B", "}", "%7D")

// sessionKeys returns the keys of a session. They share one hash tag, so that one script can move them.
func (s *Store) sessionKeys(k checkpoint.Key) []string {
	base := s.prefix + "{" + escaper.Replace(k.Orchestrator) + "/" + escaper.Replace(k.Session) + "}"
	return []string{base + ":head", base + ":turns", base + ":runs", base + ":reqs"}
}

// An index lists sessions of one orchestrator that have, or may have, something in common. It is a sorted set in byte
// order, and a hash of the token that each entry was written with.
type index struct {
	orchestrator string
	owing        bool // of those that owe a reply, not of all
}

func (s *Store) indexKeys(x index) []string {
	base := s.prefix + "{" + escaper.Replace(x.orchestrator) + "}:sessions"
	if x.owing {
		base = s.prefix + "{" + escaper.Replace(x.orchestrator) + "}:owing"
	}
	return []string{base, base + ":tokens"}
}
