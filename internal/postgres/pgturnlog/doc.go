// Package pgturnlog is a [turnlog.Lister] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Record of a new entry is one statement, which locks the row of its run until the commit. So two entries of one run
// that are recorded at once wait for each other. Record of an entry that is known is two: the second one compares the
// states.
//
// Restore reads one run by the primary key. Turns reads pages in the order of the first entries, by an index: of all
// turns, of one session, or of those that are open. A query for an orchestrator looks at the turns of the others too.
//
// On Citus the tables must stay local, on the coordinator.
package pgturnlog
