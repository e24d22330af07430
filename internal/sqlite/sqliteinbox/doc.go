// Package sqliteinbox is an [inbox.Store] in an SQLite file.
//
// It works with any database/sql driver for SQLite 3.37 or newer and imports none. The caller opens the database, and
// creates the table with package migrations or with [Store.Schema]. The file may be the one in which packages
// sqlitecheckpoint and sqlitesnapshot store turns and runs.
//
// # Table
//
// The table of the inbox has one row for each item. An index has the items of a kind in the order of the contract. So
// the cost of Items grows with the items that it yields only.
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
// Post and Remove are one transaction each. Items reads pages of 16 and then 64 items.
//
// SQLite has one writer at a time. The writers of one Store queue in memory. Writers of other stores and other
// processes take turns by SQLite's own lock. Each waits for this lock no longer than its busy_timeout. All processes on
// the file must be on this machine. A pool of one connection is enough, and is a queue for all stores on it.
//
// If ctx ends, a call stops waiting in the queue or for the lock.
//
// # Clocks
//
// The clock of the process that posts an item says when it was posted, in microseconds.
package sqliteinbox
