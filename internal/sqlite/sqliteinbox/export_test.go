package sqliteinbox

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"posted": postedSQL, "list": listSQL, "brief list": listBriefSQL, "list all": listAllSQL,
	"brief all": listAllBriefSQL, "alone": aloneSQL, "remove": removeSQL, "remove kind": removeKindSQL,
	"remove all": removeAllSQL,
}

// Text returns a statement as the store sends it.
func (s *Store) Text(template string) string { return s.db.SQL(template) }
