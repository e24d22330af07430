package sqliteturnlog

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"known": knownSQL, "restore": restoreSQL, "brief restore": restoreBriefSQL, "list all": listSQL,
	"list open": listOpenSQL, "list session": listSessionSQL, "brief all": listBriefSQL, "brief open": listOpenBriefSQL,
	"brief session": listSessionBriefSQL, "slice": sliceSQL, "forget phases": forgetPhasesSQL, "forget": forgetSQL,
}

// Text returns a statement as the log sends it.
func (l *Log) Text(template string) string { return l.db.SQL(template) }
