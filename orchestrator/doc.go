// Package orchestrator runs the turns of agent sessions: one call of Execute for each input.
//
// A [Definition] says what a bot is: its intents, which of them runs when, and what a turn starts from. An
// [Orchestrator] runs it over a checkpoint store, which keeps the settled turns and says who owns a session, and over a
// snapshot store, if there is one, which keeps the turn in flight:
//
//	bot, err := orchestrator.New(def, pgcheckpoint.New(pool, nil), &orchestrator.Options{Snapshots: pgsnapshot.New(pool, nil)})
//	…
//	res, err := bot.Execute(ctx, session, orchestrator.Input{RequestID: id, Text: text}, nil)
//
// A Result means that the turn is settled: durable, in its place, whoever crashes next. With a snapshot store every turn
// can be resumed from its first durable write, which comes before anything of the bot's runs but Begin; without one a turn
// that crashes is simply not there.
//
// # The order of a turn
//
// Wait for the session and claim it; answer a repeated request from its record; deliver what is owed; build the turn and
// run Begin; record it as in flight; then, until it ends, decide, dispatch, merge, evaluate and save; settle; forget the
// record; deliver; release. A repeated request delivers nothing that is owed. Whatever is in flight already is dealt with first, as Options.OnInterrupted says, save the
// call's own: the same request id finishes its own run.
//
// What runs next is decided by the first that has an opinion: Evaluate, the intents' Next, First (at the start), Route.
// Of several Nexts after a fan-out their union runs, in the order in which the intents were dispatched, unless one is End.
// An intent that is named twice runs once. State may be changed by Begin, the intents, Route and Evaluate, and what an
// attempt or a branch that failed did to it is gone.
//
// # Errors
//
// Every error is an [*Error], whose Op says how far the turn came. What it wraps:
//
//	ErrBusy             the session was owned by another for all of Limits.LockWait
//	ErrInterrupted      another input is in flight, and OnInterrupted is Reject
//	ErrParked           the run in flight was tried too often; Force tries again, Abandon ends it
//	ErrSuspended        the run in flight waits for an answer
//	ErrIndeterminate    the turn may still settle: repeat it with its request id, or Resume, to find out
//	ErrNothingToResume  Resume: no run is in flight
//	ErrShuttingDown     Shutdown was called before the turn began
//	ErrAbandoned        Abandon or Delete ended the turn in this process
//	ErrRequestReused    the request id belongs to another input
//	ErrMaxIterations    Limits.Iterations iterations, and nothing ended the turn
//	ErrMerge            two branches of a fan-out changed one field differently
//	ErrReentrant        a turn called for its own session
//	ErrTooManyStuck     a thousand functions of the bot ignore the end of their context: the process has to be restarted
//	ErrNoSession        a Tool without a session function was called outside a turn
//	*InputError         the input cannot be taken
//	*StateError         the turn left a state that is larger than Limits.State
//	*DriftError         a stored row was written by another definition, and there is no Migrate
//	*PanicError         a function of the bot panicked
//	lock.Err…           with ErrIndeterminate: why the session was lost
//
// Errors of the stores, of ctx and of the bot's functions keep their identity.
package orchestrator
