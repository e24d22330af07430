// Package ledger remembers effects on the outside world: done once, or known to be in doubt.
//
// An [Effect] is one thing to be done in the world, such as a payment. It has one row, however often it is tried. A row
// is written before the effect is tried, and again with the outcome. A process that dies between the two leaves the row
// [Issued]. The next owner of the run makes it [Unknown], and the [Class] says what happens then.
//
// A [lock.Fence] that the checkpoint store issued decides who may try. The ledger remembers the highest fence of each
// run. It refuses to issue an effect under a lower fence, and under an equal epoch with another nonce. It takes the
// result of an earlier owner all the same: a result is knowledge, not authority. The first result stays for ever.
//
// An effect has Failed only if no attempt may have happened. If an attempt may have paid, and the next one is refused,
// this proves nothing: the effect is Unsure then, and becomes Unknown.
//
// Without a Key an effect belongs to a place in a run. With a Key it belongs to the world: once ever, whatever the run
// and the session. An effect with a Key that is Issued to a run is that run's until the run has been adopted by another
// owner, or has ended.
//
// After a failover, or from a backup, a ledger may have lost effects that were acknowledged. They have no rows that
// could be marked. So Raise, of [lock.Raiser], opens a window. While it is open, the first Issue of an effect that may
// have been issued before is not granted. The effect is Unknown at once, and the Class decides, as if its process had
// died: the other side is asked, or a person. That is so for an effect of class Verifiable or Ask, if it has a Key, or
// if its run may have begun before the Raise. If such an effect is known to have Failed before the Raise, its next
// attempt is Unknown too: a later attempt may be lost. What is Idempotent is issued: the other side recognises the key.
// What is Pure runs again. Raise also ends all owners: what they have left Issued is Unknown, and their fences are
// refused. The windows of several Raises add up.
//
// This package holds the contract, [Ledger], and an implementation in memory, [Memory]. Durable ledgers live in
// subpackages, one for each backend. All pass ledgertest.Run, which is the contract in executable form. A ledger of
// your own should pass it too. There is no ledger on Redis: what must not be forgotten does not live in a store that
// forgets.
//
// # Errors
//
//	lock.ErrFenced  Adopt, Issue, Record: the run has seen a higher fence
//	ErrChanged      Issue: the effect has other arguments than before
//	ErrAnswered     Finish: a person has answered for an effect that is not in doubt
//	ErrNotFound     Finish: no such effect
//	ErrInDoubt      Once, Tx: the effect may have happened
//	ErrSkipped      Once, Tx: a person has said that the effect shall not happen
//	ErrRepeated     Once: one attempt has named two effects alike
//	ErrRedacted     Once, Tx: the result was changed before it was kept
//	ErrInvalid      an argument that no backend takes; nothing is written
//	ErrSchema       tables are missing or too old
//	ErrDamaged      no ledger wrote the stored effect as it is; a *DamagedError if it is one effect
//	ErrRefused      the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After such an error the call may or may not have taken effect. It is
// safe to repeat the call with the same arguments.
package ledger
