package pgcheckpoint

// Broken returns a store whose named statement is another one, written with the placeholders of the real ones.
func (s *Store) Broken(statement, sql string) *Store {
	broken := *s
	switch statement {
	case "append":
		broken.sql.append = fill(s.prefix, sql)
	case "delete":
		broken.sql.deleteHead = fill(s.prefix, sql)
		broken.sql.deleteTurns = `SELECT $1::text, $2::text`
	default:
		panic("no statement " + statement)
	}
	return &broken
}

// Fill fills the names of the store's tables in.
func (s *Store) Fill(sql string) string { return fill(s.prefix, sql) }
