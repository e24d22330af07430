// Package redissnapshot is a [snapshot.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redissnapshot.New(client, nil)
//
// Each transition of a run is one Lua script over keys that share a hash tag, so it is atomic, also on a cluster. Save,
// Adopt and Delete cost one round trip, Begin two. The client may repeat what it gets no answer to, as go-redis does by
// itself, and a copy may arrive late: every script may run twice.
//
// A copy of a Begin must not bring back a run that has ended. So what Delete has removed is remembered for an hour, and
// a run with the same id, begun under the same fence, is refused with lock.ErrFenced. Under another fence it is welcome.
//
// # What Redis cannot promise
//
// A run is as durable as the server is configured to make it. With appendonly no a crash loses everything; with
// appendfsync everysec, up to a second and more of what was acknowledged when the machine fails; with appendfsync always
// none. Replication is asynchronous: a failover can lose what was acknowledged, whatever appendfsync says. A run that was
// lost is not there: its owner is refused, and its turn is as if it had never begun.
//
// A cluster whose nodes lose their memory one by one can list fewer runs than it holds: the index of an orchestrator
// lives on one node, its sessions on all. A run that is not listed is still found by Begin, and by who asks for its
// session. The clocks of the nodes must agree to within ten minutes.
//
// maxmemory-policy must be noeviction: any other lets Redis delete the index. What is missing of a run is reported as
// [snapshot.ErrInvalid].
//
// A call ends with its ctx only if the client was made with ContextTimeoutEnabled; else it ends with the client's own
// timeouts. Either way the error tells that ctx is done.
//
// # Keys
//
// Keys start with the prefix, which may be that of a redischeckpoint, and are there to be looked at, not to be changed.
// In a hash tag, %, /, { and } of names are written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:run   HASH id, request, turn, attempt, base, status, seq, epoch, nonce, payload, error,
//	                             not_before, started, saved (µs), and how it was begun: begun, call, entry
//	{orchestrator/session}:past  ZSET of what was over or out of use within the last hour
//	{orchestrator}:inflight      ZSET of sessions with a run in flight; an entry may be stale, none is missing
//	{orchestrator}:inflight:tokens  HASH of the tokens of these entries
package redissnapshot
