// Package redistranscript is a [transcript.Store] on Redis.
//
// Each step is one Lua script on one key. Append and a page of Read cost one round trip. A store that has heard nothing
// of its server for a minute, or whose session was trimmed a moment ago, needs two for an Append. Trim costs two for
// 200 entries that it deletes, and one for 1,000 that it looks at.
//
// # Copies
//
// The source and the target may be on two nodes of a cluster, and no script is on both. So Copy reads the source first,
// as it was at one moment. Then it writes the target in one step, with all entries or with none. What is appended to
// the source or trimmed from it between the two does not count. The entries pass through the memory of the program, and
// through one command. More than 64 MiB, or 20,000 entries, are an error, and nothing is copied: copy them in parts, by
// several calls.
//
// # Late copies of requests
//
// A late copy of a request has no effect: an Append or a Copy does not bring back what was trimmed, and a Trim takes
// nothing that was appended since. Only a call that never had an effect before, and whose caller has got an error, can
// still take effect late, within 20 minutes.
//
// # After a Raise
//
// The number that all sessions go on behind is in the key of each transcript, and in one key for those that are not
// there. So the first Append to a session, or Copy to it, costs two round trips more.
//
// # Keys
//
//	{orchestrator/session}:transcript  ZSET with members for each entry: its numbers, its time and its call; its body;
//	                                   and one that finds it by its id. Others refuse late copies. Zero bytes divide
//	                                   the parts of a member. Without entries the key expires after an hour
//	transcripts                        ZSET of one member, after a Raise: the number before the first one of a new
//	                                   transcript
package redistranscript
