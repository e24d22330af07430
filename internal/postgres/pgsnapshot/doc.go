// Package pgsnapshot is a [snapshot.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later.
//
// Begin, Save, Adopt and Delete take one round trip each. The first Begin of a session takes a second one, which
// creates the row of the session. A Begin, Save or Delete that changes nothing takes one more, which finds out why. A
// Save or Delete of a run that has had parts takes one more as well. It removes the parts that are not read any more.
//
// Begin, Save and Adopt are durable on return, also if they are repeated and find their effect in place. They do not
// depend on the server's default: they commit with synchronous_commit = on, or with remote_apply if that is the
// default. Delete need not be durable, and does not wait for the disk.
//
// With a pgcheckpoint.Store on the same pool, [Store.Join] settles a turn and deletes its run in one statement.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. The store keeps no state in a database session. So it works behind a
// pooler in transaction mode and with a pool of one connection.
//
// # Tables
//
// Two tables are safe to query. Their names begin with [Options].Prefix:
//
//	holdfast_runs       one row for each session that has a run, or had one not long ago
//	holdfast_run_parts  one row for each part of a run
//
// In holdfast_runs deleted_at is NULL while the run is in flight. A row with deleted_at holds the fence of the session:
// its status is 'deleted' and it has no payload. Such rows stay until [Store.Sweep] removes them, so call Sweep now and
// then. A part counts while its payload_version equals that of its run.
//
// Lists read an index of the runs in flight. Their cost follows the load, not the history.
//
// # Functions
//
// With [Options].Functions a transition is one call of a function instead, also if it reads or removes parts. The
// functions are part of the schema, and their names are numbered: see docs/operations.md. Each function is about one
// session and calls no volatile function in what it writes. So the functions keep to the rules of Citus.
package pgsnapshot
