// Package redisinbox is an [inbox.Store] on Redis 6.2 and later, alone or as a cluster.
//
//	store := redisinbox.New(client, nil)
//
// Each step is one Lua script on one key. So it is atomic, also on a cluster, and while its slot moves. Post costs two
// round trips, and four if an item of the session was removed lately and others are left. Remove costs one if there is
// nothing to remove, and otherwise two, or three with the last item. If a request got no answer, the client may repeat
// it, as go-redis does by itself. A copy may arrive late. So every script may run twice.
//
// A late copy of a Post does not bring back an item that was removed. A late copy of a Remove does not remove an item
// that was posted since. Only a Post or a Remove that never had an effect before, and whose caller has got an error,
// can still take effect late.
//
// # What Redis cannot promise
//
// An item is as durable as the server is configured to make it. With appendonly no, a crash loses everything. With
// appendfsync everysec, a failure of the machine can lose the acknowledged writes of a second or more. With appendfsync
// always, it loses none. Replication is asynchronous: under each setting of appendfsync, a failover can lose
// acknowledged writes. Then two people may both have been told that they are the first, and an item that was removed
// may be there again. If that must not happen, keep the inbox in package pginbox or sqliteinbox.
//
// If the nodes of a cluster lose their memory one by one, the cluster can list fewer items than it holds: the index of
// an orchestrator lives on one node, its sessions on all. Items of the session still finds them. The clocks of the
// nodes must agree to within ten minutes. The clock of the server that holds the session says when an item was posted.
//
// Remove of all kinds removes one kind after the other. If it fails, it may have removed some.
//
// maxmemory-policy must be noeviction. Any other policy lets Redis delete answers. At its first use, and then once a
// minute, the store asks each server by INFO, and refuses another policy with [ErrEviction]. It accepts a server that
// does not say. At maxmemory Post is [inbox.ErrRefused], and Items and Remove go on.
//
// If the client was made with ContextTimeoutEnabled, a call ends with its ctx. Otherwise it ends with the client's own
// timeouts. Either way the error tells that ctx is done.
//
// # Keys
//
// Keys start with the prefix, which may be that of a redissnapshot. You may look at the keys, but not change them. In a
// hash tag, %, /, { and } of names are written as %25, %2F, %7B and %7D.
//
//	{orchestrator/session}:inbox:KIND  ZSET with a member for each item: item, at (µs), id, by, shown, data, divided
//	                                   by zero bytes; and a member that finds it by its id. The other members refuse
//	                                   late copies. Without items the key expires after an hour
//	{orchestrator}:inbox:KIND          ZSET of sessions with items. An entry may be stale, but none is missing. A
//	                                   member is a session, a zero byte, and the token of the entry
package redisinbox
