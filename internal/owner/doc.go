// Package owner makes a process the owner of sessions, one call at a time. A session is a row with a fence in some
// store. All that the package asks of the store stands in Row and Rows.
//
// A call waits in line: for the other calls of its process, for the Locker, and for the owner of the session. Then the
// call claims the session at its store. The process owns the session until it gives the session back or loses it. The
// leases of all sessions are renewed together.
//
// Everything that a call writes carries the fence of its claim. So an owner that lost its session, and has not noticed,
// writes nothing. This package adds two things: the owner notices early, and callers are served in turn.
package owner
