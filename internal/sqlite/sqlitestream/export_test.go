package sqlitestream

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"append": appendSQL, "trim": trimSQL, "head": headSQL, "delete": deleteSQL, "delete chunks": deleteChunksSQL,
	"page": pageSQL, "ask": askSQL, "slice": sliceSQL,
}

// Text returns a statement as the store sends it.
func (s *Store) Text(template string) string { return s.db.SQL(template) }
