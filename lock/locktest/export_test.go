package locktest

// Violations returns an error for each clause that a locker breaks.
var Violations = clauses.Violations
