// Package pgtranscript is a [transcript.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// A row of messages is an entry, with all its messages. A session has a row in transcripts besides, which says the
// newest number. Every write locks this row first: so two entries never have a number in common, and a Copy or a Trim
// never meets an Append half way. The lock ends with the commit. A Copy also locks the row of its source.
//
// The row of transcripts without a name is of no session. Raise writes it.
//
// An Append is one statement, and so is a page of Read. A Copy or a Trim is one transaction in one round trip. All find
// their rows by the primary key. Only a Trim reads all rows of its session, without the messages.
//
// On Citus the tables must stay local, on the coordinator.
package pgtranscript
