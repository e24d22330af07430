// Package sqlitesnapshot stores the turns in flight of agent sessions in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database,
// and creates the tables with package migrations or with what [Store.Schema] returns. It may be the file in which
// package sqlitecheckpoint stores the turns that are settled.
//
// # Tables
//
// The table of runs has one row for each session. When the run is deleted, the row keeps its id and its fence without
// the payload, until [Store.Sweep] removes it. An index holds the rows of the runs in flight, so that the cost of Runs
// grows with these only. The table of run parts has one row for each part of a run in flight. A run without parts never
// touches it.
//
// A Save without a payload reads the stored payload, because SQLite updates whole rows. It writes the payload again
// only if it changes the length of the row. A pause does so, a status of another length, and a Seq that takes one byte
// more.
//
// # Opening
//
// The store changes no setting of a connection. At its first use it looks at how the database was opened and refuses,
// with [ErrDSN], what would lose or fail: it wants journal_mode WAL, synchronous FULL or EXTRA, a busy_timeout of at
// least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// Begin, Adopt, Save and Delete are one statement each, which commits by itself. Only one that changes nothing costs a
// second, which finds out why and waits for no disk. A call that writes, reads or drops parts is a transaction.
//
// With a sqlitecheckpoint.Store on the same *sql.DB, [Store.Join] settles a turn and deletes its run in one transaction.
//
// SQLite has one writer at a time. The writers of a Store queue in memory; those of other stores and other processes
// on the file, which must be on this machine, take turns by SQLite's own lock, for which each waits no longer than
// its busy_timeout. A pool of one connection is enough, and is a queue for all stores on it.
//
// A ctx that ends stops a wait for either.
//
// # Clocks
//
// Times come from the clock of the process, in microseconds. A pause ends by the same clock.
package sqlitesnapshot
