// Package sqlitecheckpoint stores the settled turns of agent sessions in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.38 or newer and imports none. The caller opens the database,
// and creates the tables with package migrations or with what [Store.Schema] returns.
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
// SQLite has one writer at a time. The writers of a Store queue in memory; those of other stores and other processes
// on the file, which must be on this machine, take turns by SQLite's own lock, for which each waits no longer than
// its busy_timeout. A pool of one connection is enough.
//
// A ctx that ends stops a wait for either. Once an Append has the write lock it runs to its end.
//
// # Clocks
//
// Epochs, leases and times come from the clock of the process, in microseconds. By the same clock, a delivery that
// failed is due again.
package sqlitecheckpoint
