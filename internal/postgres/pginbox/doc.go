// Package pginbox is an [inbox.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Each call of Post or Remove is one statement, which finds its rows by the primary key. A row is added and removed,
// and never updated. So the role of a service needs no UPDATE. Items reads an index that has the items of a kind in the
// order of the contract, and touches no other item. Of two calls that post one id at once, the second one waits for the
// commit of the first one. No other call waits.
//
// On Citus the table must stay local, on the coordinator.
package pginbox
