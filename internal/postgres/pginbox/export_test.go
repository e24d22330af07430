package pginbox

import "strings"

// Broken returns a store with another text in place of a part of the named statement, which must have that part. Both
// have the placeholders of the real statements.
func (s *Store) Broken(statement, part, instead string) *Store {
	broken := *s
	sql := map[string]*string{
		"post": &broken.sql.post, "list": &broken.sql.list, "remove ids": &broken.sql.removeIDs,
		"remove kind": &broken.sql.removeKind, "remove all": &broken.sql.removeAll,
	}[statement]
	if sql == nil || !strings.Contains(*sql, s.Fill(part)) {
		panic("no such part of " + statement + ": " + part)
	}
	*sql = strings.ReplaceAll(*sql, s.Fill(part), s.Fill(instead))
	return &broken
}

// Fill replaces the placeholders by the names of the store's table.
func (s *Store) Fill(sql string) string { return fill(s.prefix, sql) }
