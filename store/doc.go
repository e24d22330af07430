// Package store has the words that all contracts share: the key of a session, the errors that a store of any contract
// may return, and the mark by which the engine tells a verdict from a failure. The contracts have these words under
// names of their own: checkpoint.Key is Key, and ledger.ErrInvalid is ErrInvalid.
//
// An error of a store is of one of three kinds.
//
//	a verdict      the store has decided: the call changed nothing, and the same call has the same end; see IsVerdict
//	ErrRefused     the server took no call: the call changed nothing, and may succeed later
//	any other      a failure: the call may have taken effect
//
// A contract makes its own verdicts by Verdict. The engine repeats a call after a failure or a refusal, and never after
// a verdict.
package store
