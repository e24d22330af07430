package pgsnapshot

// Broken returns a store whose named statement is another one, written with the placeholders of the real ones.
func (s *Store) Broken(statement, sql string) *Store {
	broken := *s
	statements := map[string]*string{
		"begin": &broken.sql.begin, "create": &broken.sql.create, "save": &broken.sql.save,
		"saveParts": &broken.sql.saveParts, "adopt": &broken.sql.adopt, "parts": &broken.sql.parts,
		"delete": &broken.sql.delete, "clean": &broken.sql.clean,
	}
	if statements[statement] == nil {
		panic("no statement " + statement)
	}
	*statements[statement] = fill(s.prefix, sql)
	return &broken
}

// Fill fills the names of the store's tables in.
func (s *Store) Fill(sql string) string { return fill(s.prefix, sql) }
