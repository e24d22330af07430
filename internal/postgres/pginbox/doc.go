// Package pginbox is an [inbox.Store] on PostgreSQL, through pgx. It is tested on 15, and written for 12 or later.
//
// Each call of Post or Remove is one statement. What Post reports is durable, also if another caller had posted the
// item before. This does not depend on the server's default: Post and Remove commit with synchronous_commit = on, or
// with remote_apply if that is the default.
//
// The caller owns the pool and has created the table: with migrations.Up, with migrations.FromSchema, or with
// [Store.Schema] in a migration tool of its own. The store keeps no state in a database session. So it works behind a
// pooler in transaction mode and with a pool of one connection. On Citus its table must stay local, on the coordinator.
//
// # Table
//
// One table is safe to query. Its name begins with [Options].Prefix:
//
//	holdfast_inbox  one row for each item
//
// A row is added and removed, and never updated. So the role of a service needs no UPDATE.
//
// # Cost
//
// Post and Remove find their rows by the primary key. Items reads pages of 16 and then 64 items by an index that has
// the items of a kind in the order of the contract. It touches no other item.
//
// # Who waits for whom
//
// Of two calls that post one id at once, the second one waits for the commit of the first one. No other call waits.
package pginbox
