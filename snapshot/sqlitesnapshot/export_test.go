package sqlitesnapshot

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"in the way": inTheWaySQL, "adopt": adoptSQL, "save": saveSQL, "delete": deleteSQL, "owner": ownerSQL,
	"runs": runsSQL, "session": sessionSQL,
}

// Text returns a statement as it is sent.
func (s *Store) Text(template string) string { return s.db.SQL(template) }
