// Package pgcheckpoint is a [checkpoint.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or
// later.
//
// Each transition is one statement and one round trip: a claim (with what it reads, in the same pipeline), a settle,
// a mark. The fence is compared by the UPDATE that takes the row lock on the session's head, never by a read beside it:
// that makes them safe. The first claim of a session takes a second round trip. So does a claim that lost a race.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. The store keeps no state in a database session, so it works behind a
// pooler in transaction mode (PgBouncer before 1.21 needs pgx's QueryExecModeCacheDescribe or QueryExecModeExec) and
// with a pool of one connection. Statements run at READ COMMITTED, whatever the default of the role or the database is.
//
// Every settle commits with synchronous_commit = on, whatever the server's default, or with remote_apply if that is the
// default. Marks, renewals, and claims of sessions that were given back, commit with off. They need not survive. A call
// that repeats a settle or a delete, and a claim that finds its answer, return when what they report is durable.
//
// # Tables
//
// Two tables, safe to query; their names begin with [Options].Prefix:
//
//	holdfast_sessions  one row for each session: who owns it, until when, how far it has come
//	holdfast_turns     one row for each kept turn, never updated
//
// In holdfast_sessions an empty nonce means that the lease was given back, turn is the last settled one (-1 for none),
// and owed the oldest settled turn whose reply was not delivered. Of that turn, failed counts the deliveries that
// failed, and retry_at is when the next one is due (NULL: now).
//
// holdfast_watches and holdfast_sessions_sweep say which process watches, and which one sweeps.
//
// # Functions
//
// With [Options].Functions a transition is one call of a function instead, of which each statement sees what was
// committed when it began. The functions are part of the schema, and their names are numbered: see docs/operations.md.
// Each is about one session, calls no volatile function in what it writes, and so keeps to the rules of Citus.
package pgcheckpoint
