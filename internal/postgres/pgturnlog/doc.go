// Package pgturnlog is a [turnlog.Log] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later. It
// is a [turnlog.Lister] too.
//
// Record of a new entry is one statement. Record of an entry that is known is two: the second one compares the states.
// After Record the entry is durable, also if it was known. This does not depend on the server's default: Record commits
// with synchronous_commit = on, or with remote_apply if that is the default. Prune need not be durable, and does not
// wait for the disk.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Log.Schema] in a migration tool of its own. The log keeps no state in a database session. So it works behind a
// pooler in transaction mode and with a pool of one connection. On Citus its tables must stay local, on the
// coordinator.
//
// # Tables
//
// Two tables are safe to query. Their names begin with [Options].Prefix:
//
//	holdfast_phases  one row for each entry
//	holdfast_logged  one row for each run: its session, its first and its last entry, and whether it is open
//
// # Cost
//
// Restore reads one run by the primary key. Turns reads pages in the order of the first entries, by an index: of all
// turns, of one session, or of those that are open. A query for an orchestrator looks at the turns of the others too.
// Prune walks through all runs: call it once a day, say.
//
// # Who waits for whom
//
// Record of a new entry locks the row of its run until the commit. So two entries of one run that are recorded at once
// wait for each other. Prune waits for them.
package pgturnlog
