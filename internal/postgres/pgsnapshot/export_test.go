package pgsnapshot

// Broken returns a store with another text for the named statement. The text has the placeholders of the real
// statements.
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
	*statements[statement] = names(s.db).Replace(sql)
	return &broken
}
