// Package pgsnapshot is a [snapshot.Store] on PostgreSQL. Package postgres says what is alike in all stores.
//
// Begin, Save, Adopt and Delete take one round trip each. The first Begin of a session takes a second one, which
// creates the row of the session. A Begin, Save or Delete that changes nothing takes one more, which finds out why. A
// Save or Delete of a run that has had parts takes one more as well. It removes the parts that are not read any more.
// With a pgcheckpoint.Store on the same pool, [Store.Join] settles a turn and deletes its run in one statement.
//
// In the table runs deleted_at is NULL while the run is in flight. A row with deleted_at holds the fence of the
// session: its status is 'deleted' and it has no payload. Such rows stay until [Store.Sweep] removes them. A part
// counts while its payload_version equals that of its run. Lists read an index of the runs in flight. Their cost
// follows the load, not the history.
//
// With [Options].Functions a transition is one call of a function instead, also if it reads or removes parts: see
// package pgcheckpoint.
package pgsnapshot
