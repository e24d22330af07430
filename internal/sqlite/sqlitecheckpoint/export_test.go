package sqlitecheckpoint

// Plans holds the statements whose plans are tested.
var Plans = map[string]string{
	"newest": turnsSQL, "numbers": numbersSQL, "answered": answeredSQL, "prune": pruneSQL, "refusal": refusalSQL,
	"renew": renewSQL, "held": heldSQL,
	"sessions": sessionsSQL, "owing": owingSQL, "settle": settleSQL, "mark": markSQL, "delete": deleteTurnsSQL,
	"idle": idleSQL, "slice": sliceSQL,
	"take": takeSQL, "owner": ownerSQL, "delete head": deleteHeadSQL,
}

// Text returns a statement as it is sent.
func (s *Store) Text(template string) string { return s.db.SQL(template) }
