// Package lock holds the proof that a process owns a session, and the waiting rooms in front of the stores.
//
// Safety never rests on a waiting room. A paused process can outlive any lock. Therefore a store refuses each write
// that does not carry the [Fence] that the store issued last. A [Locker] only saves callers a request that the store
// would refuse. Losing a lock wastes work and nothing else.
//
// Errors of ownership are the same values in every contract of the module:
//
//	ErrHeld     another owner has the session now: come back later
//	ErrFenced   another owner has taken over: drop everything, the store accepts nothing more
//	ErrLost     the server said at a renewal that the lease is no longer ours
//	ErrExpired  no renewal succeeded in time, so another owner may have taken over
//	ErrHandoff  this process gave the session away, to shut down
package lock
