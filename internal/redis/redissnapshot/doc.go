// Package redissnapshot is a [snapshot.Store] on Redis.
//
// Each transition of a run is one Lua script on one key. Save, Adopt and Delete cost one round trip, Begin two.
//
// A run in flight never expires. Delete leaves the run's id and its fence, some hundred bytes for each session. Both
// expire after Options.Remember. An Adopt that finds no run leaves its fence in the same way. Until the fence expires,
// a call with a lower fence returns lock.ErrFenced, also if no run is in flight.
//
// A copy of a Begin does not bring back a run that has ended. The kept fence refuses the copy. So does the index entry
// that the copy names, because no run may use that entry again. After 20 minutes each copy is refused, also if the
// fence has expired. Only a Begin that never had an effect before can still take effect late. If the kept fence has
// expired, or was lost in a failover, such a Begin may have a low fence.
//
// On a cluster a page of Runs ends with ctx in any case. It waits for a node that does not answer for the ReadTimeout
// of the client.
//
// # Keys
//
//	{orchestrator/session}:run      HASH id, request, turn, attempt, base, status, seq, epoch, nonce, payload, error,
//	                                not_before, started, saved (µs); part:NAME for each part, and parts, which is 1 if
//	                                there are any; how it was begun: call, entry; what refuses late copies: found,
//	                                barred. Without a run in flight only id, epoch, nonce, found, barred, and the
//	                                status over
//	{orchestrator}:inflight         ZSET of sessions with a run in flight. An entry may be stale, but none is missing.
//	                                A member is a session, a zero byte, and the token of the entry
package redissnapshot
