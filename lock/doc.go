// Package lock holds what proves ownership of a session, and a waiting room that spares the stores.
//
// Safety never rests on the waiting room. A process that was paused can outlive any lock, so a store refuses
// whoever does not bear the [Fence] that it issued last; a [Locker] only keeps those who would be refused from
// asking. Losing a lock therefore wastes work and nothing else.
//
// Errors of ownership are the same values in every contract of the module:
//
//	ErrHeld     somebody else owns it now: come back later
//	ErrFenced   somebody else has taken over: drop everything, nothing more will be accepted
//	ErrLost     a renewal was told that it is no longer ours
//	ErrExpired  no renewal succeeded in time, so it may no longer be ours
//	ErrHandoff  we gave it away ourselves, to shut down
package lock
