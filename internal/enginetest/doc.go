// Package enginetest crashes the engine everywhere.
//
// A [Matrix] is a set of small histories of one session: a turn, with and without Iterate, Deliver and a request id, one
// that takes over what a dead process left, Abandon, Delete. Every call to a store and every function of the bot is a point
// of the process under test. The matrix enumerates them, and for each point and each kind of fault it runs the history
// again, with that fault at that point: then a second process, which is healthy, repeats the call, sends another input,
// resumes or drains. What is left in the stores, what the callers were told and what was done to the world have to agree.
//
// It takes any pair of stores, and returns its findings, so that a test can prove that it convicts broken ones.
// HOLDFAST_SOAK=1 lets every second process follow every fault; else they take turns.
package enginetest
