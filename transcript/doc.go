// Package transcript keeps what was said in sessions.
//
// A transcript is append-only, and its messages have numbers. Which of them a session sees, its state says, by spans of
// numbers. A message counts from the moment that a state which names it is saved, and no longer once the newest state
// does not name it. So two owners may append at once, and only one is heard. To cut a conversation off is to name less.
//
//	said, err := store.Append(ctx, key, runID, msgs) // durable, and not said yet
//	state.Said = transcript.Join(state.Said, said)   // the save of the state says it
//	for msg, err := range store.Read(ctx, key, state.Said) { … }
//
// What is appended in one step is an entry, and has an id. Whoever repeats the step finds the entry, and appends
// nothing. Nothing changes an entry: a process may keep what it has read for as long as the session exists.
//
// This package holds the contract, Store, and an implementation in memory, Memory, for tests and for one process.
// Packages postgres, sqlite and redis keep transcripts in their databases. A store of your own should pass
// transcripttest.Run, which is the contract in executable form, as these do.
//
// If a database may have lost what was appended last, Raise makes numbers go on behind all that were ever given.
//
// A transcript knows nothing of turns. If a session is deleted, what was said stays until Trim deletes all. The
// databases of this module delete it with a session that they retire.
//
// # Errors
//
//	ErrTaken    Copy: the session has something else at one of the numbers; nothing is copied
//	ErrInvalid  an argument that no backend takes; nothing is written
//	ErrSchema   tables are missing or too old
//	ErrDamaged  no store wrote the stored entry as it is; a *DamagedError if it is one entry
//	ErrRefused  the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After such an error the call may or may not have taken effect. It is
// safe to repeat the call with the same arguments.
package transcript
