// Package pgstream is a [stream.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later.
//
//	store := pgstream.New(pool, nil)
//
// Append is one statement, which compares the epoch under the lock of the session's row. It does not wait for the disk:
// it commits with synchronous_commit = off. A crash of the server may lose the chunks of its last moments, and loses
// them in order, so that no gap appears. Their numbers are given again. A reader that had seen a lost chunk may miss
// the next one with its number.
//
// The caller owns the pool and has created the tables: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. On Citus its tables must stay local, on the coordinator.
//
// # Readers that wait
//
// Append notifies the readers of other processes with NOTIFY. While readers of a Store wait, the Store listens on one
// connection of the pool for all of them. A lost connection is replaced, and meanwhile the Store asks for all readers
// in one statement, each [Options].Poll. So it does all the time if it cannot listen: if the pool has fewer than four
// connections, or is no *pgxpool.Pool, or if a pooler such as PgBouncer is between. Then an idle server has a statement
// each 100 ms for each process whose readers wait. A reader that waits gets an error when the server has been away for
// some 10 seconds.
//
// Let the readers end before you close the pool: pgxpool.Pool.Close waits for the connection that listens.
//
// The server delivers notifications in the order of the commits, one commit at a time in each database. These commits
// do not wait for the disk. A notification has a hash of the session's name, so that no other role of the database
// learns the name.
//
// # Tables
//
// Two tables are safe to query. Their names begin with [Options].Prefix:
//
//	holdfast_streams  one row for each session: its status, its newest run, and the numbers of its chunks
//	holdfast_chunks   one row for each Append: its chunks, as one JSON array
//
// A third, holdfast_streams_sweep, remembers where [Store.Sweep] is.
//
// # What is kept
//
// Append removes the oldest chunks of its session once there are twice as many as are to be kept. A session that is too
// old is unknown at once, and its rows stay until Sweep, or an Append for it. So call Sweep now and then, as
// bootdrain.Watch does with an Orchestrator's Sweep.
package pgstream
