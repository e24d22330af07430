// Package redischeckpoint is a [checkpoint.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redischeckpoint.New(client, nil)
//
// Each transition of a session is one Lua script over keys that share a hash tag, so it is atomic, also on a cluster.
// Claiming and settling cost the same whatever a session keeps. The client may repeat what it gets no answer to, as
// go-redis does by itself: every script may run twice. A client whose reads may go to replicas is no less safe, as
// scripts run on masters.
//
// # What Redis cannot promise
//
// A settled turn is as durable as the server is configured to make it. With appendonly no a crash loses everything;
// with appendfsync everysec, up to a second and more of acknowledged turns when the machine fails; with appendfsync
// always none. Replication is asynchronous: a failover can lose turns that were acknowledged, whatever appendfsync says.
// Whoever owned a session that was lost is fenced at the next write, and never mistaken for the owner of the next.
// That rests on the server's clock, which issues epochs, and on the caller's nonce should the clock step back.
//
// A cluster whose nodes lose their memory one by one can list fewer sessions than it holds: the index of an
// orchestrator lives on one node, its sessions on all. A session that is not listed is still there for who knows its id.
//
// maxmemory-policy must be noeviction: any other lets Redis delete part of a session. What is missing is reported as
// [checkpoint.ErrInvalid] where it can be told from what never was.
//
// # Time
//
// Leases are measured by the clock of the server that holds the session. With Options.TTL a session expires as a whole
// when that time has passed since its lease ended, unless it owes a reply: then it stays until it is delivered. A TTL
// shorter than the longest pause between two messages loses live sessions.
//
// A call ends with its ctx only if the client was made with ContextTimeoutEnabled; else it ends with the client's own
// timeouts. Either way the error tells that ctx is done.
//
// # Keys
//
// Keys start with the prefix, and are there to be looked at, not to be changed. In a hash tag, %, /, { and } of names
// are written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:head   HASH epoch, nonce, owner, lease (µs), born, turn, first, summarized, owed
//	{orchestrator/session}:turns  HASH 0 (route, signature, version), 0:at, 0:run, 0:req, 0:state, 0:payload, 1, …
//	{orchestrator/session}:runs   HASH run id to turn
//	{orchestrator/session}:reqs   HASH request id to turn
//	{orchestrator}:sessions       ZSET of sessions that have settled a turn; an entry may be stale, none is missing
//	{orchestrator}:owing          ZSET of sessions that owe a reply; likewise
//
// Each ZSET has a HASH of the tokens of its entries beside it, named with :tokens.
package redischeckpoint
