// Package pgcheckpoint is a [checkpoint.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or
// later.
//
// Each transition is one statement and one round trip: a claim (with the reads of the new owner, in the same pipeline),
// a settle, a mark. The UPDATE that takes the row lock on the session's head compares the fence. No read beside that
// UPDATE does, which makes the transitions safe. The first claim of a session takes a second round trip. So does a
// claim that lost a race.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. The store keeps no state in a database session. Therefore it works
// with a pool of one connection, and behind a pooler in transaction mode. PgBouncer before 1.21 needs pgx's
// QueryExecModeCacheDescribe or QueryExecModeExec. Statements run at READ COMMITTED, even if the role or the database
// has another default.
//
// Every settle commits with synchronous_commit = on, even if the server has another default. If the default is
// remote_apply, a settle commits with remote_apply. Marks, renewals, and claims of sessions that were given back,
// commit with off: they need not survive. A call that repeats a settle or a delete, and a claim that finds its answer,
// return when the reported data is durable.
//
// # Tables
//
// Two tables, safe to query; their names begin with [Options].Prefix:
//
//	holdfast_sessions  one row for each session: who owns it, until when, how far it has come
//	holdfast_turns     one row for each kept turn, never updated
//
// In holdfast_sessions an empty nonce means that the lease was given back. turn is the last settled turn (-1 for none),
// and owed the oldest settled turn whose reply was not delivered. failed counts the failed deliveries of turn owed.
// retry_at is when its next delivery is due (NULL: now).
//
// holdfast_watches and holdfast_sessions_sweep say which process watches, and which one sweeps. holdfast_beats counts
// the beats of each process that owns sessions. It is not logged, and empty after a crash of the server.
//
// # Functions
//
// With [Options].Functions each transition is one call of a function instead. Each statement of a function sees all
// data that was committed when the statement began. The functions are part of the schema, and their names are numbered:
// see docs/operations.md. Each function is about one session, and its statements that write call no volatile function.
// So it keeps to the rules of Citus.
package pgcheckpoint
