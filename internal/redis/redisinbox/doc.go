// Package redisinbox is an [inbox.Store] on Redis.
//
// Each step is one Lua script on one key. Post costs two round trips, and four if an item of the session was removed
// lately and others are left. Remove costs one if there is nothing to remove, and otherwise two, or three with the last
// item. Remove of all kinds removes one kind after the other. If it fails, it may have removed some.
//
// A late copy of a Post does not bring back an item that was removed. A late copy of a Remove does not remove an item
// that was posted since. Only a Post or a Remove that never had an effect before, and whose caller has got an error,
// can still take effect late.
//
// # Keys
//
//	{orchestrator/session}:inbox:KIND  ZSET with a member for each item: item, at (µs), id, by, shown, data, divided
//	                                   by zero bytes; and a member that finds it by its id. The other members refuse
//	                                   late copies. Without items the key expires after an hour
//	{orchestrator}:inbox:KIND          ZSET of sessions with items. An entry may be stale, but none is missing. A
//	                                   member is a session, a zero byte, and the token of the entry
package redisinbox
