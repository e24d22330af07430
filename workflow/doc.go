// Package workflow keeps durable functions alive: runs of named steps that survive their process.
//
// The body of a workflow is code, in package flow. This package links no engine. It holds the contract, [Store], and
// what a program needs that only starts, signals and reads runs, [Client].
//
// # A run
//
// A run is one row. The row is also its own message: it says when the run is due, and which process owns it. A journal
// row keeps the outcome of each step. While no process owns a run, the run costs a row, and nothing else.
//
// # Who may write
//
// Claim makes a process the owner of a run and issues a fence. Only the owner writes the journal. Each write carries
// the fence, and the statement that writes compares it in the run's row, under a lock of that row. A signal or a cancel
// needs no ownership: it changes the run's row, and the owner's next write sees that. A signal counts the mail of its
// run. The owner says how much mail it has seen when it gives the run back to wait, or when a wait times out. If more
// has come, the store refuses with [ErrMail], and the owner looks again. So no signal is lost, and of a signal and a
// timeout one wins.
//
// # Families
//
// A run may have a parent. A start of a child holds the parent's row until it commits, and is refused if the parent is
// over. A cancel ends the descendants in its transaction, after it has its run: so no child escapes it.
//
// # Lost answers
//
// Every call may be repeated. Start with the same ids adds nothing, and a message with the same id counts once. If an
// entry of Write was written, the same entry is no error and changes nothing, until the run has gone on: then the entry
// may be refused although it was written. So after ErrMail the owner reads the journal before it decides. A Claim or a
// Start without an answer may have made its process the owner of runs of which the process does not know, also later:
// ClaimRequest.Again gets them, and should be asked again for as long as the request may still arrive.
//
// # Clocks
//
// The store stamps all times, by one clock. Callers send durations. Claimed.Now tells the owner what the clock says.
//
// # Errors
//
//	ErrInvalid    no store takes the argument
//	ErrNotFound   there is no such run, parent or step
//	ErrKeyReused  the key was used with another input
//	ErrOver       the run, or the parent of a run to be started, is over
//	ErrMail       a signal has come since its owner looked
//	ErrAborted    the transaction of a step has certainly not committed, because of what it did
//	ErrSchema, ErrDamaged, ErrRefused and lock.ErrFenced  as in all contracts; see package store
package workflow
