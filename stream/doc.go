// Package stream keeps what a session shows while it works, for a while. A reader whose connection was cut goes on
// where it was, in whichever process.
//
// What a turn shows are chunks: the words of a model as they come, which intent runs, how the turn ended. The owner of
// the session appends them. They are numbered within the session, over all its turns, from 1 and without gaps. A reader
// that knows the number of the last chunk it has seen reads on from there, and gets each later chunk once:
//
//	for chunk, err := range store.Read(ctx, key, last) {
//		…
//		last = chunk.Seq
//	}
//
// A stream is no record of a turn. What counts is in the settled turn. A Store may lose chunks when its server crashes,
// and drops them on purpose after a while. Then a reader gets ErrGone, and begins anew from the settled turns.
//
// A lock.Fence that the checkpoint store issued decides who may append. The store remembers the highest epoch of each
// session, and drops the chunks of a former owner without a word: its turn has another owner, who shows it.
//
// This package holds the contract, Store, and an implementation in memory, Memory, which serves one process. Processes
// that share sessions need a store that they share: packages postgres and redis, or on one machine sqlite. A store of
// your own should pass streamtest.Run, which is the contract in executable form, as these do, and streamtest.RunPair,
// which has its writers and readers in two processes.
//
// # Errors
//
//	ErrGone     Read: the chunks after seq are no longer kept, or never were
//	ErrInvalid  an argument that no backend takes
//	ErrSchema   tables are missing or too old
//	ErrDamaged  no store has written what is kept of the session; of a Read, this is ErrGone too
//	ErrRefused  the server took no call, or no write: nothing has changed
//
// Any other error is the backend's own, wrapped. An Append that returned one may or may not have taken effect.
// Repeated, it may show its chunks twice.
package stream
