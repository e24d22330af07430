// Package sqlitesnapshot stores the turns in flight of agent sessions in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database, and
// creates the tables with package migrations or with [Store.Schema]. The file may be the one in which package
// sqlitecheckpoint stores the settled turns.
//
// # Tables
//
// The table of runs has one row for each session. When the run is deleted, the row keeps its id and its fence without
// the payload, until [Store.Sweep] removes the row. An index holds the rows of the runs in flight, so that the cost of
// Runs grows with these rows only. The table of run parts has one row for each part of a run in flight. A run without
// parts never touches that table.
//
// A Save without a payload reads the stored payload, because SQLite updates whole rows. It writes the payload again
// only if the length of the row changes. A pause changes the length, and so does a status of another length, or a Seq
// that takes one byte more.
//
// # Opening
//
// The store changes no setting of a connection. At its first use it looks at how the database was opened. With [ErrDSN]
// it refuses settings that would lose data or fail. It wants journal_mode WAL, synchronous FULL or EXTRA, a
// busy_timeout of at least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// Begin, Adopt, Save and Delete are one statement each, which commits by itself. If a call changes nothing, it costs a
// second statement, which finds out why and waits for no disk. A call that writes, reads or drops parts is a
// transaction.
//
// With a sqlitecheckpoint.Store on the same *sql.DB, [Store.Join] settles a turn and deletes its run in one
// transaction.
//
// SQLite has one writer at a time. The writers of one Store queue in memory. Writers of other stores and other
// processes take turns by SQLite's own lock. Each waits for this lock no longer than its busy_timeout. They poll, in no
// order: if many processes write on a busy machine, set a longer one. All processes on the file must be on this
// machine. A pool of one connection is enough, and is a queue for all stores on it.
//
// If ctx ends, a call stops waiting in the queue or for the lock.
//
// # Clocks
//
// Times come from the clock of the process, in microseconds. A pause ends by the same clock.
package sqlitesnapshot
