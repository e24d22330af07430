// Package pgsnapshot is a [snapshot.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later.
//
// Begin, Save, Adopt and Delete are one statement and one round trip each; only a refusal costs a second, which finds
// out why. What a caller builds on is durable whatever the server's default, save Delete, which need not be.
//
// The caller owns the pool and has created the table: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. The store keeps no state in a database session, so it works behind a
// pooler in transaction mode and with a pool of one connection.
//
// The table, holdfast_runs with the default prefix, is safe to query. It has one row for each turn in flight, and none
// for what is settled: its size follows the load, not the history.
package pgsnapshot
