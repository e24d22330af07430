// Package orchestrator runs the turns of agent sessions: one call of Execute for each input.
//
// A [Definition] describes a bot: its intents, which of them runs when, and the state that a turn starts from. An
// [Orchestrator] runs the bot over two stores. The checkpoint store keeps the settled turns and says who owns a
// session. The snapshot store is optional. It keeps the run, which is the turn in flight:
//
//	bot, err := orchestrator.New(def, pg.Checkpoints(), &orchestrator.Options{Snapshots: pg.Snapshots()})
//	…
//	res, err := bot.Execute(ctx, session, orchestrator.Input{RequestID: id, Text: text}, nil)
//
// A Result means that the turn is settled: it is durable and in its place, even if the process crashes next. With a
// snapshot store, every turn can be resumed from its first durable write. That write comes before any function of the
// bot runs, except Begin, Migrate and Options.History. Without a snapshot store, a turn that crashes leaves nothing.
//
// # The order of a turn
//
// Wait for the session and claim it. If the request is a repeat, return its settled turn. Deliver what is owed. Build
// the turn and run Begin. Save the run as in flight. Until the turn ends: decide, dispatch, merge, evaluate and save.
// Settle. Delete the run. Deliver. Release the session.
//
// A repeated request delivers nothing that is owed. Any other run in flight is handled first, as Options.OnInterrupted
// says. If the run in flight has the call's request id and input, the call finishes that run.
//
// The first of these that has an opinion decides what runs next: Evaluate, the intents' Next or Then, First (at the
// start), Route. If several intents of a fan-out have a Next, the union of them runs, in the order in which the intents
// were dispatched. If one of them is End, the turn ends. An intent that is named twice runs once. [ForEach] runs an
// intent once for each of several items.
//
// Begin, the intents, Route, Evaluate and Then may change State. If an attempt or a branch fails, its changes to State
// are gone.
//
// # Errors
//
// Every error is an [*Error]. Its Op says how far the turn came. It wraps one of these:
//
//	ErrBusy             another owner had the session for all of Limits.LockWait
//	ErrUnavailable      the store could not be reached, and nothing was begun: try again
//	ErrInterrupted      another input is in flight, and OnInterrupted is Reject
//	ErrOwed             Options.RequireDelivered, and Deliver has failed again for an earlier turn: try again later
//	ErrParked           the run in flight was tried too often; Unpark and Force try again, Abandon ends it
//	ErrSuspended        the run in flight waits for an answer
//	ErrIndeterminate    the turn may still settle: repeat it with its request id, or Resume, to find out
//	ErrNothingToResume  Resume: no run is in flight
//	ErrShuttingDown     Shutdown was called before the turn began
//	ErrAbandoned        Abandon or Delete ended the turn in this process
//	ErrRequestReused    the request id belongs to another input
//	ErrMaxIterations    Limits.Iterations iterations, and nothing ended the turn
//	ErrTurnTimeout      the turn took longer than Limits.TurnTimeout, and failed
//	ErrIntentTimeout    the intent took longer than its Timeout in the last attempt, and the turn failed
//	ErrMerge            two branches of a fan-out changed the same field
//	ErrReentrant        a turn called for its own session
//	ErrTooManyStuck     a thousand functions of the bot ignore the end of their context: restart the process
//	ErrNoLedger         Once was called, and Options.Ledger is nil
//	ErrNoStream         Follow: Options.Stream is nil
//	ErrQueueFull        Enqueue: Limits.Queue inputs wait already
//	ErrNoInbox          Enqueue: Options.Inbox is nil
//	ErrNoDefinition     what would run the bot: the Orchestrator is of WithoutDefinition
//	ErrNoSession        a Tool without a session function was called outside a turn
//	*InDoubtError       effects of the turn may have happened: see Once
//	*InputError         the input cannot be taken
//	*VersionError       Put: the session does not have the version that the call asks for
//	*StateError         the turn left a state, or items of ForEach, larger than Limits.State
//	*DriftError         this process would lose something of a stored row; a process of another version can use it
//	*PanicError         a function of the bot panicked
//	lock.Err…           with ErrIndeterminate: why the session was lost
//
// Errors of the stores, of ctx and of the bot's functions keep their identity. An error that is
// context.DeadlineExceeded and none of ErrTurnTimeout, ErrIntentTimeout and ErrUnavailable tells of the deadline of the
// caller's ctx, or of a deadline that a function has set for itself.
package orchestrator
