// Package redisstream is a [stream.Store] on Redis.
//
// Each method is one Lua script on one key, and one round trip. The script knows the last Appends of its session, so
// that a copy adds nothing. A copy of a Delete that arrives late deletes once more. If chunks were lost, readers get
// stream.ErrGone, and begin anew from the settled turns.
//
// # Readers that wait
//
// Append publishes the number of its last chunk on a channel of its session. While readers of a Store wait, the Store
// has one subscription for all of them, on a connection that is not of the client's pool. A lost connection is
// replaced, and meanwhile the Store asks for all readers in one pipeline, each [Options].Poll. So it does all the time
// with a client that is no *redis.Client and no *redis.ClusterClient. A cluster passes each publication on to all of
// its nodes. A reader that waits gets an error when the server has been away for some 10 seconds.
//
// # Keys
//
//	{orchestrator/session}:shown  STREAM with two kinds of entries. N-0 holds the chunks of one Append as a JSON
//	                              array: from, run, data; N is the number of the last one, and from that of the
//	                              first. The newest entry is the head: epoch, status, run, start, first, calls. A
//	                              channel has the same name
//
// The key expires when Options.TTL has passed since the last Append.
package redisstream
