// Package redischeckpoint is a [checkpoint.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redischeckpoint.New(client, nil)
//
// Each transition of a session is one Lua script on one key. So it is atomic, also on a cluster and while the slot of
// the key moves. Claiming and settling cost the same, however many turns a session keeps. The client may repeat a
// request that got no answer, as go-redis does by itself: every script may run twice, and a copy may arrive late. A
// client whose reads may go to replicas is no less safe, because scripts run on masters.
//
// # What Redis cannot promise
//
// A settled turn is as durable as the server is configured to make it. With appendonly no, a crash loses everything.
// With appendfsync everysec, a failure of the machine loses up to a second and more of acknowledged turns. With
// appendfsync always, it loses none. Replication is asynchronous: a failover can lose acknowledged turns, with any
// appendfsync. If a session was lost, its owner is fenced at its next write, and never mistaken for the next owner.
// That rests on the server's clock, which issues epochs. If the clock steps back, it rests on the caller's nonce.
//
// A cluster whose nodes lose their memory one by one can list fewer sessions than it holds: the index of an
// orchestrator lives on one node, its sessions on all. A session that is not listed is still found by its id.
//
// maxmemory-policy must be noeviction: with any other policy Redis may delete part of a session. The first use asks
// each server by INFO, and so does one call a minute after that. If the server reports another policy, each call fails
// with [ErrEviction] until the policy is mended. If data is missing, and the store can tell that it existed, the error
// is [checkpoint.ErrDamaged].
//
// A failed delivery is counted once, also if the client repeats the Mark. If two calls of Mark with a Retry overlap
// under one lease, one of them may not be counted.
//
// # What is kept, and for how long
//
// Leases, and the time until a failed delivery is due again, are measured by the clock of the server that holds the
// session. Delete leaves nothing of a session. A session that has settled no turn expires when Options.Unsettled has
// passed since its lease ended. With Options.TTL any session expires as a whole when that time has passed since its
// lease ended. A session that owes a reply stays until the reply is delivered, however often the delivery fails. A TTL
// shorter than the longest pause between two messages loses live sessions.
//
// A call ends with its ctx only if the client was made with ContextTimeoutEnabled. Otherwise it ends with the client's
// own timeouts. Either way the error tells that ctx is done. On a cluster Renew, Held and a page of Sessions or Sweep
// end with ctx in any case. They wait for a node that does not answer for the ReadTimeout of the client.
//
// # Keys
//
// Keys start with the prefix. You may look at them, but not change them. In a hash tag, %, /, { and } of names are
// written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:session  HASH of the head, the turns, and the ids that turns are found by:
//	                                epoch, nonce, owner, lease (µs), born, turn, first, summarized, owed;
//	                                cleared (turns from there to first are pruned and will be removed);
//	                                after a failed delivery: failed (how often), retry (µs),
//	                                tried (number of the attempt);
//	                                tokens of its entry in owing: owing, retired;
//	                                0 (route, signature, version), 0:at, 0:run, 0:req, 0:state, 0:payload, 1, …;
//	                                run:ID and req:ID, whose value is the turn
//	{orchestrator}:sessions         ZSET of sessions that have settled a turn; an entry may be stale, none is missing
//	{orchestrator}:owing            ZSET of sessions that owe a reply; likewise
//	{orchestrator/hash}:watch       STRING, the process that watches for all with the same definition; it expires
//	beats                           HASH of processes that own sessions: how often each has beaten, and when (ms)
//
// A member of a ZSET is a session, a zero byte, and the token of the entry.
package redischeckpoint
