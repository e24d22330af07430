// Package pgcheckpoint is a [checkpoint.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Each transition is one statement and one round trip: a claim (with the reads of the new owner, in the same pipeline),
// a settle, a mark. The UPDATE that takes the row lock on the session's head compares the fence. No read beside that
// UPDATE does, which makes the transitions safe. The first claim of a session takes a second round trip. So does a
// claim that lost a race.
// A row of turns is never updated.
//
// With [Options].Functions each transition is one call of a function instead. Each statement of a function sees all
// data that was committed when the statement began. The functions are part of the schema, and their names are numbered:
// see docs/operations.md. Each function is about one session, and its statements that write call no volatile function.
// So it keeps to the rules of Citus.
package pgcheckpoint
