// Package snapshot keeps the turns in flight of agent sessions.
//
// A [Run] is written when its turn begins, rewritten at each iteration, and deleted when the turn has ended. If a
// process finds a Run, the turn has not ended: another process works on it, or died doing so. A session has at most one
// Run. The store promises this, not its caller.
//
// A [lock.Fence] that the checkpoint store issued decides who may write. The store remembers the highest fence of a
// session. It refuses a lower fence, and an equal epoch with another nonce. A new owner makes its fence known with
// Adopt before it uses anything of the run. The runs that Begin and Runs return may be out of date a moment later. The
// run that Adopt returns is not, because from then on the former owner is refused.
//
// When a run is deleted, the store keeps its fence and its id for a day. So it refuses a Begin of an earlier owner that
// arrives after the run was told to have ended.
//
// A store in the database of the checkpoint store may be a [Joiner]. Then one transaction settles a turn and deletes
// its run, and no crash comes between the two.
//
// This package holds the contract, [Store], and an implementation in memory, [Memory]. Durable stores live in
// subpackages, one for each backend. All pass snapshottest.Run, which is the contract in executable form. A store of
// your own should pass it too.
//
// # Errors
//
//	lock.ErrFenced  all but Runs: the session has seen a higher fence. Begin: the fence is spent.
//	                Save, Delete: the fence is not the run's. Save: the run is not in flight, or has ended
//	ErrNotFound     Adopt: no run is in flight
//	ErrParked       Adopt: the run has had all its attempts, and is parked from now on
//	ErrInvalid      an argument that no backend takes
//	ErrDamaged      no store wrote the stored run as it is; a *DamagedError if it is one run
//	*AwayError      Runs: the part of the store that has one run is away
//	ErrSchema       tables are missing or too old
//	ErrRefused      the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After such an error the call may or may not have taken effect. If the
// call was Adopt, Save or Delete, it is safe to repeat it with the same arguments, and the repeat tells. Begin is never
// repeated.
package snapshot
