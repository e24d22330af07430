// Package redis keeps runs, streams and answers, and if that is enough settled turns and transcripts, in a Redis 6.2 or
// later, alone or as a cluster.
//
//	rd := redis.New(client, nil)
//	bot, err := orchestrator.New(def, pg.Checkpoints(), &orchestrator.Options{
//		Snapshots: rd.Snapshots(), Stream: rd.Stream(), Ledger: pg.Ledger(),
//	})
//
// Each transition of a session is one Lua script on one key. So it is atomic, also on a cluster and while the slot of
// the key moves. The client may repeat a request that got no answer, as go-redis does by itself: every script may run
// twice, and a copy may arrive late. Scripts run on masters, whatever the client does with reads.
//
// # What Redis cannot promise
//
// What is kept is as durable as the server is configured to make it. With appendonly no, a crash loses everything. With
// appendfsync everysec, a failure of the machine loses up to a second and more of what was acknowledged. With
// appendfsync always, it loses none. Replication is asynchronous: a failover can lose what was acknowledged, with any
// appendfsync. If a session was lost, its owner is fenced at its next write, and never mistaken for the next owner.
// That rests on the server's clock, which issues epochs. If the clock steps back, it rests on the nonce of the claim.
//
// In a cluster the list of an orchestrator's sessions lives on one node, the sessions on all. If nodes lose their
// memory one by one, lists of sessions, runs and items may lack some that are kept. Each is still found by its session.
// The clocks of the nodes must agree to within ten minutes. After a failover another server's clock measures leases and
// pauses.
//
// After a loss two people may both have been told that they were the first to answer, and an item that was removed may
// be there again. If that must not happen, keep the inbox in another database.
//
// A Copy between transcripts reads the source as it was at one moment, and then writes the target in one step: on a
// cluster they may be on two nodes. What is appended to the source or trimmed from it in between does not count. The
// entries are in memory, and in one command: at most 256 MiB, and 200,000 entries. What was appended and then lost is
// missing, as the reader is told. Its numbers may be given again: if that must not happen, keep the transcripts in
// another database.
//
// A ledger or a turn log on Redis would promise what it cannot keep, so there is none.
//
// maxmemory-policy must be noeviction: with any other policy Redis may delete part of what belongs together. The first
// use asks each server by INFO, and so does one call a minute after that. While a server reports another policy, each
// call fails with [ErrEviction].
//
// # What is kept, and for how long
//
// Sessions, runs and streams expire by themselves, by the clock of the server that holds them. Delete leaves nothing of
// a session. A session that owes a reply stays until the reply is delivered. A transcript stays until Trim deletes it.
//
// A call ends with its ctx only if the client was made with ContextTimeoutEnabled. Otherwise it ends with the client's
// own timeouts. Either way the error tells that ctx is done.
//
// # Keys
//
// Keys start with the prefix. You may look at them, but not change them. docs/operations.md says what is on call to
// see, and which rights a user needs. The keys of one session have the session in their hash tag, so that they are on
// one server of a cluster. The lists of sessions have the orchestrator there. In a hash tag, %, /, { and } of names are
// written as %25, %2F, %7B and %7D.
package redis
