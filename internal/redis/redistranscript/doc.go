// Package redistranscript is a [transcript.Store] on Redis.
//
// Each step is one Lua script on one key. Append and a page of Read cost one round trip. A store that has heard nothing
// of its server for a minute, or whose session was trimmed a moment ago, needs two for an Append. Trim costs two, and
// one if there is nothing to trim.
//
// # Copies
//
// The source and the target may be on two nodes of a cluster, and no script is on both. So Copy reads the source first,
// as it was at one moment. Then it writes the target in one step, with all entries or with none. What is appended to
// the source or trimmed from it between the two does not count. The entries pass through the memory of the program, and
// through one command. More than 256 MiB, or 200,000 entries, are an error, and nothing is copied.
//
// # Late copies of requests
//
// A late copy of a request has no effect: an Append or a Copy does not bring back what was trimmed, and a Trim takes
// nothing that was appended since. Only a call that never had an effect before, and whose caller has got an error, can
// still take effect late, within 20 minutes.
//
// # Keys
//
//	{orchestrator/session}:transcript  ZSET with members for each entry: its numbers, its time and its call; its body;
//	                                   and one that finds it by its id. Others refuse late copies. Zero bytes divide
//	                                   the parts of a member. Without entries the key expires after an hour
package redistranscript
