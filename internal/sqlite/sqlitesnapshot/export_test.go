package sqlitesnapshot

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"in the way": spentSQL, "adopt": adoptSQL, "replace": replaceSQL, "add": addSQL, "delete": deleteSQL,
	"owner": ownerSQL, "parts": partsSQL, "clear": clearSQL, "drop parts": dropPartsSQL, "flag": flagSQL,
	"runs": runsSQL, "brief": runsBriefSQL, "session": sessionSQL, "brief session": sessionBriefSQL, "slice": sliceSQL,
	"old": oldSQL, "forget": forgetSQL,
}

// Text returns a statement as the store sends it.
func (s *Store) Text(template string) string { return s.db.SQL(template) }
