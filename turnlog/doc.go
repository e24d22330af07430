// Package turnlog records the phases that a turn passes, in order, and gives them back.
//
// An [Entry] says that a run has passed a phase, when, and with which state. The engine records [Started] and
// [Settled] by itself if Options.TurnLog of package orchestrator is set. What calls a model or a tool records the
// others with Turn.Record, and phases of its own that a [Registry] knows.
//
// The engine survives crashes without a turn log. A turn log is for those who want to know what a turn did and when,
// and for programs that decide for themselves what to do with a turn that was cut off. The engine never calls Restore.
//
// A [Log] has two methods, so that any store which can append and read back can be one. An entry is identified by its
// run, its phase and its time. The same entry may come twice, because an answer may have been lost: it is one entry.
// Times of one run differ by a millisecond at least. They come from the fence of the owner, not from a clock of the
// process, and grow from owner to owner.
//
// This package holds the contract and an implementation in memory, [Memory]. Durable logs live in subpackages. All pass
// turnlogtest.Run, which is the contract in executable form. A log of your own should pass it too. docs/turnlog.md
// shows two.
//
// # Errors
//
//	ErrPhase    Record: the phase is not registered, or its name is none
//	ErrState    Record: the state is no JSON, or larger than MaxState
//	ErrChanged  Record: the same run, phase and time with another state
//	ErrInvalid  an argument that no log takes
//	ErrSchema   tables are missing or too old
//	ErrDamaged  no log wrote the stored entries as they are; a *DamagedError if they are of one run
//	ErrRefused  the server took no write; repeat it later
//	ErrAdapter  Restore: the adapter has given back what is not of the run
//
// After one of the first four nothing is stored. Any other error is the backend's own, wrapped. After such an error the
// entry may have been stored. It is safe to record it again.
package turnlog
