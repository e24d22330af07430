// Package sqlitestream is a [stream.Store] in an SQLite file, for the processes of one machine.
//
//	store := sqlitestream.New(db, nil)
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database, and
// creates the tables with package migrations or with [Store.Schema]. The file may be the one in which packages
// sqlitecheckpoint and sqlitesnapshot store turns and runs.
//
// Append is one transaction, which does not wait for the disk. A power failure may lose the newest chunks, and no
// commit of another store.
//
// # Readers that wait
//
// Append wakes the readers of its own Store at once. While readers of a Store wait, the Store asks for all of them in
// one query, each [Options].Poll, for what other processes have appended. The query holds no connection in between.
//
// # Tables
//
// Two tables are safe to query. Their names begin with [Options].Prefix:
//
//	holdfast_streams  one row for each session: its status, its newest run, and the numbers of its chunks
//	holdfast_chunks   one row for each Append: its chunks, as one JSON array
//
// Append removes the oldest chunks of its session once there are twice as many as are to be kept. A session that is too
// old is unknown at once, and its rows stay until Sweep, or an Append for it. So call Sweep now and then, as
// bootdrain.Watch does with an Orchestrator's Sweep.
//
// # Opening
//
// The store changes no setting of a connection, except while it appends. At its first use it looks at how the database
// was opened. With [ErrDSN] it refuses settings that would lose data or fail. It wants journal_mode WAL, synchronous
// FULL or EXTRA, a busy_timeout of at least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// SQLite has one writer at a time. The writers of one Store queue in memory. Writers of other stores and other
// processes take turns by SQLite's own lock. Each waits for this lock no longer than its busy_timeout. A pool of one
// connection is enough. How old a session is is measured by the clock of the machine.
package sqlitestream
