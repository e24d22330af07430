// Package pgworkflow is a [workflow.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// A step is one statement. It locks the row of its run where the fence matches, and adds the journal row. The run's row
// gets no new version. A claim, a signal and a cancel change the row. So each of them comes before the statement, and
// is seen, or after it. The lock is weak: readers do not wait for it.
//
// Statements of several runs are one transaction in one round trip. They come in the order of the runs' ids, so that
// two owners never wait for each other. Parameters are scalars: PostgreSQL would plan a statement with arrays anew in
// each execution.
//
// A statement sees what was committed before it began, except in the row that it has locked. So a refusal is judged by
// another statement, after it. A message whose run has changed meanwhile is sent again.
//
// Citus is not supported.
package pgworkflow
