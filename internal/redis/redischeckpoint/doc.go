// Package redischeckpoint is a [checkpoint.Store] on Redis.
//
// Each transition of a session is one Lua script on one key. Claiming and settling cost the same, however many turns a
// session keeps. A lost session is never mistaken for its next life: the server's clock issues epochs, and if the clock
// steps back, the caller's nonce tells them apart.
//
// A failed delivery is counted once, also if the client repeats the Mark. If two calls of Mark with a Retry overlap
// under one lease, one of them may not be counted.
//
// Leases, and the time until a failed delivery is due again, are measured by the clock of the server that holds the
// session. A session that has settled no turn expires when Options.Unsettled has passed since its lease ended, and with
// Options.TTL any session. A session that owes a reply stays until the reply is delivered.
//
// On a cluster Renew, Held and a page of Sessions or Sweep end with ctx in any case. They wait for a node that does not
// answer for the ReadTimeout of the client.
//
// # Keys
//
//	{orchestrator/session}:session  HASH of the head, the turns, and the ids that turns are found by:
//	                                epoch, nonce, owner, lease (µs), born, turn, first, summarized, owed;
//	                                cleared (turns from there to first are pruned and will be removed);
//	                                after a failed delivery: failed (how often), retry (µs),
//	                                tried (number of the attempt);
//	                                tokens of its entry in owing: owing, retired; labels;
//	                                0 (route, signature, version), 0:at, 0:run, 0:req, 0:state, 0:payload, 1, …;
//	                                run:ID and req:ID, whose value is the turn
//	{orchestrator}:sessions         ZSET of sessions that have settled a turn; an entry may be stale, none is missing
//	{orchestrator}:owing            ZSET of sessions that owe a reply; likewise
//	{orchestrator}:labels           ZSET of sessions by their labels; an entry may be stale, none is missing
//	{orchestrator/hash}:watch       STRING, the process that watches for all with the same definition; it expires
//	beats                           HASH of processes that own sessions: how often each has beaten, and when (ms)
//
// A member of a ZSET is a session, a zero byte, and the token of the entry. In labels, label and time or nothing stand
// before the session, each with a zero byte behind it.
package redischeckpoint
