// Package redissnapshot is a [snapshot.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redissnapshot.New(client, nil)
//
// Each transition of a run is one Lua script on one key. So it is atomic, also on a cluster, and while its slot moves.
// Save, Adopt and Delete cost one round trip, Begin two. If a request got no answer, the client may repeat it, as
// go-redis does by itself. A copy may arrive late. So every script may run twice.
//
// # What is kept, and for how long
//
// A run in flight never expires. Delete leaves the run's id and its fence, some hundred bytes for each session. Both
// expire after Options.Remember. An Adopt that finds no run leaves its fence in the same way. Until the fence expires,
// a call with a lower fence returns lock.ErrFenced, also if no run is in flight.
//
// A copy of a Begin does not bring back a run that has ended. The kept fence refuses the copy. So does the index entry
// that the copy names, because no run may use that entry again. After 20 minutes each copy is refused, also if the
// fence has expired. Only a Begin that never had an effect before can still take effect late. If the kept fence has
// expired, such a Begin may have a low fence.
//
// # What Redis cannot promise
//
// A run is as durable as the server is configured to make it. With appendonly no, a crash loses everything. With
// appendfsync everysec, a failure of the machine can lose the acknowledged writes of a second or more. With appendfsync
// always, it loses none. Replication is asynchronous: under each setting of appendfsync, a failover can lose
// acknowledged writes.
//
// If a run was lost, its owner is refused, and its turn is as if it had never begun. The fence that Delete leaves can
// be lost in the same way. Then a late Begin of an earlier owner succeeds.
//
// If the nodes of a cluster lose their memory one by one, the cluster can list fewer runs than it holds: the index of
// an orchestrator lives on one node, its sessions on all. A run that is not listed is still found by Begin, and by a
// query for its session. The clocks of the nodes must agree to within ten minutes.
//
// A Pause is measured by the clock of the server that holds the session. After a failover another server's clock
// measures it.
//
// maxmemory-policy must be noeviction. Any other policy lets Redis delete the index, or a fence. At its first use, and
// then once a minute, the store asks each server by INFO, and refuses another policy with [ErrEviction]. It accepts a
// server that does not say. If a field of a run is missing, the store reports [snapshot.ErrDamaged].
//
// If the client was made with ContextTimeoutEnabled, a call ends with its ctx. Otherwise it ends with the client's own
// timeouts. Either way the error tells that ctx is done. On a cluster a page of Runs ends with ctx in any case. It
// waits for a node that does not answer for the ReadTimeout of the client.
//
// # Keys
//
// Keys start with the prefix, which may be that of a redischeckpoint. You may look at the keys, but not change them. In
// a hash tag, %, /, { and } of names are written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:run      HASH id, request, turn, attempt, base, status, seq, epoch, nonce, payload, error,
//	                                not_before, started, saved (µs); part:NAME for each part, and parts, which is 1 if
//	                                there are any; how it was begun: call, entry; what refuses late copies: found,
//	                                barred. Without a run in flight only id, epoch, nonce, found, barred, and the
//	                                status over
//	{orchestrator}:inflight         ZSET of sessions with a run in flight. An entry may be stale, but none is missing.
//	                                A member is a session, a zero byte, and the token of the entry
package redissnapshot
