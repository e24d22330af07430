package pgsnapshot

// Broken returns a store whose named statement is another one, written with the placeholders of the real ones.
func (s *Store) Broken(statement, sql string) *Store {
	broken := *s
	switch statement {
	case "begin":
		broken.sql.begin = fill(s.prefix, sql)
	case "adopt":
		broken.sql.adopt = fill(s.prefix, sql)
	case "save":
		broken.sql.save = fill(s.prefix, sql)
	case "delete":
		broken.sql.delete = fill(s.prefix, sql)
	case "inFlight":
		broken.sql.inFlight = fill(s.prefix, sql)
	default:
		panic("no statement " + statement)
	}
	return &broken
}

// Fill fills the names of the store's table in.
func (s *Store) Fill(sql string) string { return fill(s.prefix, sql) }
