// Package sqlite keeps everything that Holdfast keeps in an SQLite file: one value for a database, one method for each
// contract. It is for the processes of one machine.
//
//	file, err := sqlite.Open("sessions.db")
//	…
//	lite := sqlite.New(file, nil)
//	bot, err := orchestrator.New(def, lite.Checkpoints(), &orchestrator.Options{
//		Snapshots: lite.Snapshots(), Ledger: lite.Ledger(), Stream: lite.Stream(),
//	})
//
// Each contract may be in another database, or in memory. Stores of one DB do together what stores of one file can do:
// a turn settles and its run ends in one transaction, with the last entry of its turn log.
//
// # Opening
//
// [Open] uses modernc.org/sqlite. [New] takes a *sql.DB of any driver for SQLite 3.38 or newer. At its first use a
// store looks at how the database was opened. It refuses settings under which data would be lost or calls would fail,
// with [ErrDSN]: it wants journal_mode WAL, synchronous FULL or EXTRA, a busy_timeout of at least one second, and
// UTF-8.
//
// # Durability
//
// Each commit waits for the disk, except those of beats, of the chunks of a stream, and of claims of workflow runs. A
// power failure may undo them, and undoes no other commit.
//
// # Concurrency
//
// SQLite has one writer at a time. The writers of one store queue in memory. Other stores and other processes may use
// the file. Their writers take turns by SQLite's own lock, for which each waits no longer than its busy_timeout. They
// poll, in no order: if many processes write on a busy machine, set a longer one. A pool of one connection is enough. A
// store has prepared statements on the connections of its *sql.DB as long as that is open: make one DB and keep it.
//
// If ctx ends, it stops the wait in memory and the wait for SQLite's lock. A write that has the lock runs to its end.
//
// # Workflows
//
// SQLite tells a process nothing of what another one writes. An engine hears at once what its own process does with the
// same [DB], and looks for the rest, with one SELECT. The writes of a call of the engine are one transaction. So are
// those of several runs that are written together, which is why they cost little more than one.
//
// # Clocks
//
// Epochs, leases, ages and times come from the clock of the process.
//
// # Tables
//
// They are those of package postgres, without locks, watches and what a sweep remembers. The table workflow_inputs has
// the inputs of workflow runs. There a due of 2^62 means that only a signal or a Resume wakes the run.
package sqlite
