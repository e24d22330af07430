// Package checkpoint stores the settled turns of agent sessions, and says who owns a session.
//
// A session is a sequence of turns numbered from 0. Settling a turn appends one [Checkpoint]. A settled turn is never
// overwritten. The newest checkpoint is the session's state. A process that wants to append claims the session first
// and gets a fence: an epoch and a nonce. The store compares the fence of each write, by equality and in the same
// atomic step, with the fence that it issued last. A process that was paused, cut off or restored from the dead
// therefore changes nothing once another has claimed.
//
// This package holds the contract, [Store], and an implementation in memory, [Memory]. Durable stores live in
// subpackages, one for each backend. All pass checkpointtest.Run, which is the contract in executable form. A store of
// your own should pass it too.
//
// # The life of a lease
//
// A claim holds the session until its TTL has passed on the store's clock, or until it is released. If a lease has
// expired and no other process has claimed, its owner still appends, marks and renews: expiry only allows others to
// claim. A released lease is over: it appends nothing and renews nothing, even before the next claim. Claiming with
// [ClaimRequest].From takes a live lease away from the owner whose fence it names.
//
// # Errors
//
//	lock.ErrHeld    Claim, as a *HeldError: a lease of another is live, or From is not the latest fence
//	lock.ErrFenced  Append, Mark, Delete: the lease is not the latest, or was released
//	                Append, Mark: the session was deleted
//	ErrConflict     Append: the turn does not follow the last settled one; with Fresh: its run is settled
//	ErrNotFound     Load: no such turn is kept
//	                Head: there is no such session
//	ErrInvalid      an argument that no backend takes
//	ErrDamaged      data that no store wrote, or that the server cannot read; of one session, a *DamagedError
//	*AwayError      Sessions, Held: the part of the store that has one session is away
//	*RenewError     Renew: the leases that are not known to be extended; the others are
//	ErrSchema       tables are missing or too old
//	ErrRefused      the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After such an error a Claim, Append or Mark may or may not have taken
// effect. Repeating the call with the same arguments is safe and tells: with [AppendOptions].Fresh, that the run is
// settled.
package checkpoint
