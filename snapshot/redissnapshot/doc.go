// Package redissnapshot is a [snapshot.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redissnapshot.New(client, nil)
//
// Each transition of a run is one Lua script on one key, so it is atomic, also on a cluster, and while its slot moves. Save,
// Adopt and Delete cost one round trip, Begin two. The client may repeat a request that got no answer, as go-redis does
// by itself, and a copy may arrive late: every script may run twice.
//
// # What is kept, and for how long
//
// A run in flight never expires. Delete leaves the run's id and its fence, some hundred bytes for each session, and these
// expire after Options.Remember. An Adopt that finds no run leaves its fence in the same way. Until then a call with a
// lower fence is lock.ErrFenced, also when nothing is in flight.
//
// A copy of a Begin does not bring back a run that has ended: what is kept refuses it, and so does the index entry that
// it names, which no run may use again. After 20 minutes each copy is refused, whatever is kept. Only a Begin
// that never had an effect before can still take effect late. If what is kept has expired, that may be under a low fence.
//
// # What Redis cannot promise
//
// A run is as durable as the server is configured to make it. With appendonly no, a crash loses everything. With
// appendfsync everysec, a failure of the machine loses up to a second and more of acknowledged writes; with appendfsync
// always, none. Replication is asynchronous: a failover can lose acknowledged writes, whatever appendfsync says. If a run
// was lost, its owner is refused, and its turn is as if it had never begun. The fence that Delete leaves can be lost in
// the same way. Then a Begin of an earlier owner, which is still on its way, begins.
//
// A cluster whose nodes lose their memory one by one can list fewer runs than it holds: the index of an orchestrator
// lives on one node, its sessions on all. A run that is not listed is still found by Begin, and by a query for its
// session. The clocks of the nodes must agree to within ten minutes.
//
// A Pause is measured by the clock of the server that holds the session. After a failover that is another clock.
//
// maxmemory-policy must be noeviction: any other lets Redis delete the index, or a fence. The first use asks each server by
// INFO and refuses another policy with [ErrEviction], if the server says. What is missing of a run is reported as
// [snapshot.ErrDamaged].
//
// A call ends with its ctx only if the client was made with ContextTimeoutEnabled; else it ends with the client's own
// timeouts. Either way the error tells that ctx is done.
//
// # Keys
//
// Keys start with the prefix, which may be that of a redischeckpoint. You may look at them, but not change them. In a
// hash tag, %, /, { and } of names are written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:run      HASH id, request, turn, attempt, base, status, seq, epoch, nonce, payload, error,
//	                                not_before, started, saved (µs); part:NAME for each part, and parts, which is 1 if
//	                                there are any; how it was begun: call, entry; what refuses late copies: found, barred.
//	                                Without a run in flight only id, epoch, nonce, found, barred, and the status over
//	{orchestrator}:inflight         ZSET of sessions with a run in flight; an entry may be stale, none is missing. A member
//	                                is a session, a zero byte, and the token of the entry
package redissnapshot
