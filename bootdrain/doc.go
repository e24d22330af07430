// Package bootdrain finishes what an earlier process left in flight: once before serving, and then for ever.
//
//	report, err := bootdrain.DrainInterrupted(ctx, bot, nil) // before the listener opens
//	…
//	go bootdrain.Watch(ctx, bot, nil) // until ctx ends
//
// A drain asks the bot which sessions have something to finish, which costs by the runs in flight and the replies owed,
// not by the sessions there are, and lets the bot recover each. A session that another process owns is skipped, so that
// any number of processes may drain at once, and live traffic need not wait: a call for a session that has a run in flight
// finishes it first by itself.
//
// Draining at boot alone strands a run whose owner dies later; that is what [Watch] is for. It looks every second for runs
// that wait and are due, which is how a run that was handed off is taken up, and every few seconds for all, whose owners
// may be dead.
//
// What is logged: one Info record for each run that was finished, one Error record for each that failed or was parked, and
// nothing for sessions that are idle.
package bootdrain
