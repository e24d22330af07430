package locktest

// These return an error for each clause that a locker, a Beater or a Watcher breaks.
var (
	Violations      = clauses.Violations
	BeatViolations  = beatClauses.Violations
	WatchViolations = watchClauses.Violations
)
