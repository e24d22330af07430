// Package enginetest makes the engine fail at every point.
//
// A [Matrix] is a set of small trials of one session. A trial is a turn, with and without Iterate, Begin, Deliver
// and a request id; a fan-out, of intents or over items; effects of each class; a turn log; a turn that takes over the
// run of a dead process; Abandon; or Delete. Every call to a store and every function of the bot is a point of the
// process under test. A claim from an owner is the point "steal". Every other claim is the point "claim".
//
// The matrix enumerates the points. For each point and each kind of fault, it runs the trial again with that fault at
// that point. The call fails before or after it takes effect, takes effect late, hangs, or fails from there on. Or its
// caller gives up, a copy of its request arrives later, or the process stops for a while or for ever. Then a second,
// healthy process repeats the call, sends another input, resumes, drains, abandons or deletes. The stores, the answers
// to callers and the effects of the bot must then obey the laws, [Begun] to [Healthy].
//
// The matrix takes any pair of stores and returns its findings. So a test can prove that it convicts broken stores.
// With HOLDFAST_SOAK=1, every point suffers every kind of fault, and every second process follows. Otherwise, similar
// faults and processes take turns.
package enginetest
