// Package owner makes a process the owner of sessions, one call at a time.
//
// A call waits in line: for the other calls of its process, for the Locker, and for the owner of the session. Then it claims
// the session at its store, and owns it until it gives it back or loses it. The leases of all sessions are renewed together.
//
// Everything that a call writes carries the fence of its claim. So an owner that lost its session, and has not noticed, writes
// nothing. What this package adds is that it notices early, and that callers are served in turn.
package owner
