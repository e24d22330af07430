// Package bootdrain finishes the runs that an earlier process left in flight: once before serving, and then for ever.
//
//	report, err := bootdrain.DrainInterrupted(ctx, bot, nil) // before the listener opens
//	…
//	go bootdrain.Watch(ctx, bot, nil) // until ctx ends
//
// A drain asks the bot which sessions have something to finish, and lets the bot recover each of them. The cost grows
// with the runs in flight and the replies owed, not with the number of sessions.
//
// A drain skips a session that another process owns. Therefore any number of processes may drain at once. Live traffic
// need not wait for the drain: a call for a session with a run in flight finishes that run first.
//
// If you drain only at boot, a run stays in flight when its owner dies later. [Watch] prevents that. Every second it
// looks for runs that wait and are due; a run that was handed off is one. Every few seconds it looks at all runs,
// because their owners may be dead. If the bot finds that another process has stopped, it looks at once.
//
// A drain claims a few runs at a time, and hundreds may be at work at once: see [Options]. So if a process dies, its
// long turns are taken up within seconds, not one after the other.
//
// A drain logs each run that was finished at level Info, and each run that failed at level Error. It logs at level
// Warn, once, that a session is left to processes of another version. It logs nothing for idle sessions. A bot logs
// itself that a run was parked.
package bootdrain
