// Package pglocker is a [lock.Locker] on a table in PostgreSQL.
//
// A lock is a row with an end, by the server's clock. Whoever waits asks again, after a pause with full jitter; or, where
// [Options].Listen gives a connection for that, is woken by the unlock and asks at once. The pool itself is never used to
// listen, so the locker works behind a pooler in transaction mode and with a pool of one connection.
//
// All locks of a [Locker] are renewed by one goroutine and one statement. Waiters get a key in no particular order. Nothing
// is durable, and nothing need be: after a crash of the server the table is empty, and what locks are about is protected
// by fences elsewhere.
package pglocker
