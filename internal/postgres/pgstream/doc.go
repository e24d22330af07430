// Package pgstream is a [stream.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Append is one statement, which compares the epoch under the lock of the session's row. It does not wait for the disk.
// A crash of the server may lose the chunks of its last moments, and loses them in order, so that no gap appears. Their
// numbers are given again. A reader that had seen a lost chunk may miss the next one with its number. Append removes
// the oldest chunks of its session once there are twice as many as are to be kept. A session that is too old is unknown
// at once, and its rows stay until Sweep, or an Append for it.
//
// Append notifies the readers of other processes with NOTIFY. While readers of a Store wait, the Store listens on one
// connection of the pool for all of them. A lost connection is replaced, and meanwhile the Store asks for all readers
// in one statement, each [Options].Poll. So it does all the time if it cannot listen: if the pool has fewer than four
// connections, or is no *pgxpool.Pool, or if a pooler such as PgBouncer is between. A reader that waits gets an error
// when the server has been away for some 10 seconds. pgxpool.Pool.Close waits for the connection that listens.
//
// The server delivers notifications in the order of the commits, one commit at a time in each database. A notification
// has a hash of the session's name, so that no other role of the database learns the name.
//
// On Citus the tables must stay local, on the coordinator.
package pgstream
