package pgstream

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/tail"
)

// Broken returns a store with another text in place of a part of the named statement, which must have that part. Both
// have the placeholders of the real statements.
func (s *Store) Broken(statement, part, instead string) *Store {
	broken := *s
	sql := map[string]*string{
		"append": &broken.sql.append, "head": &broken.sql.head, "page": &broken.sql.page, "ask": &broken.sql.ask,
		"lock": &broken.sql.lock, "forget": &broken.sql.forget, "trim": &broken.sql.trim,
	}[statement]
	if sql == nil || !strings.Contains(*sql, s.Fill(part)) {
		panic("no such part of " + statement + ": " + part)
	}
	*sql = strings.ReplaceAll(*sql, s.Fill(part), s.Fill(instead))
	broken.hub = tail.NewHub(tail.Source{ID: id, Ask: broken.ask, Poll: 1e7})
	return &broken
}

// Fill replaces the placeholders by the names of the store's tables.
func (s *Store) Fill(sql string) string { return names(s.prefix, s.ttl).Replace(sql) }

// Channel is what the store listens on.
func (s *Store) Channel() string { return s.channel }
