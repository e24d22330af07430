// Package pgledger is a [ledger.Ledger] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later.
//
// Issue and Record of a new effect, and a Finish that is taken, are one statement each. If the effect is known already,
// or the outcome is not taken, they are two. An Issue or a Record under another fence than the run's also adopts the
// run, or finds that the fence is too low. Adopt is two statements in one round trip and one transaction.
//
// What these calls return is durable, also if they are repeated and find their effect in place. They do not depend on
// the server's default: they commit with synchronous_commit = on, or with remote_apply if that is the default. Prune
// need not be durable, and does not wait for the disk.
//
// [Tx] does an effect in a transaction of the caller: exactly once for work in the same database.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Ledger.Schema] in a migration tool of its own. The ledger keeps no state in a database session. So it works behind a
// pooler in transaction mode and with a pool of one connection. On Citus its tables must stay local, on the
// coordinator: its statements are about two tables whose keys differ, and it has no functions instead.
//
// # Tables
//
// Three tables are safe to query. Their names begin with [Options].Prefix:
//
//	holdfast_effects        one row for each effect
//	holdfast_effect_fences  one row for each run that was adopted or has effects
//	holdfast_effect_raises  one row for each Raise
//
// # Who waits for whom
//
// Issue, Record and Tx lock the row of the run's fence FOR SHARE until their commit. Such locks admit each other, so
// the branches of a run do not wait for each other. Adopt updates this row: it waits for them, or they find its fence.
// Two calls about one effect wait for each other.
package pgledger
