// Package enginetest crashes the engine everywhere.
//
// A [Matrix] is a set of small histories of one session: a turn, with and without Iterate, Begin, Deliver and a request
// id, a fan-out, a turn that takes over what a dead process left, Abandon, Delete. Every call to a store and every
// function of the bot is a point of the process under test. A claim from an owner is the point "steal", every other
// claim is "claim".
//
// The matrix enumerates the points. For each point and each kind of fault it runs the history again, with that fault at
// that point: the call fails before or after it takes effect, takes effect late, hangs, fails from there on, its caller
// gives up, a copy of its request arrives later, or the process stops for a while or for ever. Then a second process,
// which is healthy, repeats the call, sends another input, resumes, drains, abandons or deletes. What is left in the
// stores, what the callers were told and what was done to the world have to agree with the laws, [Begun] to [Healthy].
//
// It takes any pair of stores, and returns its findings, so that a test can prove that it convicts broken ones.
// HOLDFAST_SOAK=1 lets every point suffer every kind, and every second process follow. Otherwise those that differ
// little take turns.
package enginetest
