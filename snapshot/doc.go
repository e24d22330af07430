// Package snapshot keeps the turns in flight of agent sessions.
//
// A [Run] is written when its turn begins, rewritten at each iteration, and gone when the turn has ended. A process that
// finds one did not write the end of it: somebody works on it, or died doing so. A session has at most one, which is
// the store's promise and not its caller's.
//
// A [lock.Fence] that the checkpoint store issued decides who may write. The store remembers the highest fence of a
// session, and refuses lower ones, and an equal epoch with another nonce. A new owner makes its fence known with Adopt
// before it uses anything of the run: what Begin or Runs showed may be out of date a moment later. What Adopt returns is
// not, because from then on the former owner is refused.
//
// When a run is deleted the store keeps its fence and its id for a day. So a Begin that an earlier owner has sent, and that
// arrives after the end of the run was told, is refused.
//
// A store in the database of the checkpoint store may be a [Joiner]: then one transaction settles a turn and deletes its
// run, and no crash comes between the two.
//
// This package holds the contract, [Store], and an implementation in memory, [Memory]. Durable stores live in
// subpackages, one for each backend. All pass snapshottest.Run, which is the contract in executable form; a store of
// your own should too.
//
// # Errors
//
//	lock.ErrFenced  all but Runs: the session has seen a higher fence. Begin: this fence has deleted this run.
//	                Save, Delete: the fence is not the run's. Save: the run is not in flight, or has ended
//	ErrNotFound     Adopt: no run is in flight
//	ErrParked       Adopt: the run has had all its attempts, and is parked from now on
//	ErrInvalid      an argument that no backend takes, or a stored row that is not what a store wrote
//	ErrSchema       tables are missing or too old
//	ErrRefused      the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After one of those the call may or may not have taken effect; repeating
// Adopt, Save or Delete with the same arguments is safe and tells. Begin is never repeated.
package snapshot
