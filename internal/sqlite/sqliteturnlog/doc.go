// Package sqliteturnlog keeps a turn log in an SQLite file. It is a [turnlog.Lister] too.
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database, and
// creates the tables with package migrations or with [Log.Schema]. The file may be the one in which packages
// sqlitecheckpoint and sqlitesnapshot store turns and runs.
//
// # Tables
//
// The table of phases has one row for each entry. The table of logged runs has one row for each run: its session, its
// first and its last entry, and whether it is open. An index holds the runs that are open, so that the cost of listing
// them grows with these only.
//
// # Opening
//
// The log changes no setting of a connection. At its first use it looks at how the database was opened. With [ErrDSN]
// it refuses settings that would lose data or fail. It wants journal_mode WAL, synchronous FULL or EXTRA, a
// busy_timeout of at least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// Record is a transaction of two statements. If the entry is known, the transaction writes nothing, and another
// statement compares the states.
//
// SQLite has one writer at a time. The writers of one Log queue in memory. Writers of other stores and other processes
// take turns by SQLite's own lock. Each waits for this lock no longer than its busy_timeout. They poll, in no order: if
// many processes write on a busy machine, set a longer one. All processes on the file must be on this machine. A pool
// of one connection is enough, and is a queue for all stores on it.
//
// If ctx ends, a call stops waiting in the queue or for the lock.
//
// # Clocks
//
// Times come from the entries, in milliseconds. Query.OlderThan uses the clock of the process.
package sqliteturnlog
