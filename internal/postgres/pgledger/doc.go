// Package pgledger is a [ledger.Ledger] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Issue and Record of a new effect, and a Finish that is taken, are one statement each. If the effect is known already,
// or the outcome is not taken, they are two. An Issue or a Record under another fence than the run's also adopts the
// run, or finds that the fence is too low. Adopt is two statements in one round trip and one transaction.
//
// Issue, Record and [Tx] lock the row of the run's fence FOR SHARE until their commit. Such locks admit each other, so
// the branches of a run do not wait for each other. Adopt updates this row: it waits for them, or they find its fence.
// Two calls about one effect wait for each other.
//
// On Citus the tables must stay local, on the coordinator: the statements are about two tables whose keys differ, and
// there are no functions instead.
package pgledger
