// Package sqlitecheckpoint stores the settled turns of agent sessions in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.38 or newer and imports none. The caller opens the database, and
// creates the tables with package migrations or with the statements of [Store.Schema].
//
// # Opening
//
// The store changes no setting of a connection. At its first use it looks at how the database was opened. With [ErrDSN]
// it refuses settings under which data would be lost or calls would fail. It wants journal_mode WAL, synchronous FULL
// or EXTRA, a busy_timeout of at least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// SQLite has one writer at a time. The writers of a Store queue in memory. Other stores and other processes may use the
// file; the processes must be on this machine. Their writers take turns by SQLite's own lock, for which each waits no
// longer than its busy_timeout. They poll, in no order: if many processes write on a busy machine, set a longer one. A
// pool of one connection is enough.
//
// If ctx ends, it stops the wait in memory and the wait for SQLite's lock. Once an Append has the write lock it runs to
// its end.
//
// # Clocks
//
// Epochs, leases and times come from the clock of the process, in microseconds. So does the time until a failed
// delivery is due again.
package sqlitecheckpoint
