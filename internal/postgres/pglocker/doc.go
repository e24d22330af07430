// Package pglocker is a [lock.Locker] on a table in PostgreSQL.
//
// A lock is a row with an end, by the server's clock. A waiter asks again after a pause with full jitter. If
// [Options].Listen opens a connection for waiters, the unlock wakes the waiter, and the waiter asks at once. The locker
// never listens on the pool. Therefore it works behind a pooler in transaction mode and with a pool of one connection.
//
// One goroutine and one statement renew all locks of a [Locker]. Waiters get a key in no particular order. Nothing is
// durable, and nothing need be: after a crash of the server the table is empty. If a lock is lost, the fences of the
// stores still protect the data.
package pglocker
