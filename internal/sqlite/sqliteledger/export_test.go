package sqliteledger

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"fence": fenceSQL, "unknown": unknownSQL, "met": metSQL, "effect": effectSQL, "reissue": reissueSQL,
	"finish": finishSQL, "complete": completeSQL, "list all": listSQL, "list open": listOpenSQL, "list run": listRunSQL,
	"list session": listSessionSQL, "list id": listIDSQL, "brief all": listBriefSQL, "brief open": listOpenBriefSQL,
	"brief run": listRunBriefSQL, "brief session": listSessionBriefSQL, "brief id": listIDBriefSQL, "slice": sliceSQL,
	"forget": forgetSQL, "fence slice": fenceSliceSQL, "forget fences": forgetFencesSQL,
}

// Text returns a statement as the ledger sends it.
func (l *Ledger) Text(template string) string { return l.db.SQL(template) }
