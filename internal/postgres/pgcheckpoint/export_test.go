package pgcheckpoint

// Broken returns a store with another text for the named statement, written with the placeholders of the real
// statements.
func (s *Store) Broken(statement, sql string) *Store {
	broken := *s
	switch statement {
	case "append":
		broken.sql.append = fill(s.prefix, sql)
	case "delete":
		broken.sql.deleteHead = fill(s.prefix, sql)
		broken.sql.deleteTurns = `SELECT $1::text IS NULL OR $2::text IS NULL`
	case "deleteHead":
		broken.sql.deleteHead = fill(s.prefix, sql)
	case "deleteTurns":
		broken.sql.deleteTurns = fill(s.prefix, sql)
	case "claim":
		broken.sql.claim = fill(s.prefix, sql)
	default:
		panic("no statement " + statement)
	}
	return &broken
}

// Fill replaces the placeholders of the store's tables by their names.
func (s *Store) Fill(sql string) string { return fill(s.prefix, sql) }
