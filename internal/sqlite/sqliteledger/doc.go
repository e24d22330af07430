// Package sqliteledger keeps a ledger of effects in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database, and
// creates the tables with package migrations or with [Ledger.Schema]. The file may be the one in which packages
// sqlitecheckpoint and sqlitesnapshot store turns and runs.
//
// # Tables
//
// The table of effects has one row for each effect, numbered in the order of the first issue. An index holds the
// effects that are open, so that the cost of listing them grows with these only. The table of effect fences has one row
// for each run that was adopted or has effects. The table of effect raises has one row for each Raise.
//
// # Opening
//
// The ledger changes no setting of a connection. At its first use it looks at how the database was opened. With
// [ErrDSN] it refuses settings that would lose data or fail. It wants journal_mode WAL, synchronous FULL or EXTRA, a
// busy_timeout of at least one second, and UTF-8. With modernc.org/sqlite:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// # Concurrency
//
// Issue, Finish and Record are one statement each, which commits by itself. If a call changes nothing, it costs a
// second statement, which finds out why and waits for no disk. Adopt is a transaction, and so is the first Issue or
// Record of a fence.
//
// SQLite has one writer at a time, so an Adopt and an Issue never overlap. The writers of one Ledger queue in memory.
// Writers of other stores and other processes take turns by SQLite's own lock. Each waits for this lock no longer than
// its busy_timeout. They poll, in no order: if many processes write on a busy machine, set a longer one. All processes
// on the file must be on this machine. A pool of one connection is enough, and is a queue for all stores on it.
//
// If ctx ends, a call stops waiting in the queue or for the lock.
//
// # Exactly once
//
// If an effect only writes in the same SQLite file, [Tx] commits these writes and the row of the effect together. Then
// the effect happens exactly once.
//
// # Clocks
//
// Times come from the clock of the process, in microseconds.
package sqliteledger
