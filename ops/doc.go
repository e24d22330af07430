// Package ops is what a person on call can see and do, over the stores alone: any bot and any workflow, without its
// Definition and its state type. A state is JSON as it is stored. A program of operators is made of it, such as the
// command holdfast.
//
//	room := ops.New(ops.Stores{
//		Checkpoints: pg.Checkpoints(), Snapshots: pg.Snapshots(), Ledger: pg.Ledger(), TurnLog: pg.TurnLog(),
//		Stream: pg.Stream(), Inbox: pg.Inbox(), Workflows: pg.Workflows(), Bots: pg.Bots,
//	}, nil)
//	defer room.Close(ctx)
//	for run, err := range room.Runs(ctx, ops.RunQuery{}) {
//		…
//	}
//
// # Looks
//
// Runs yields the runs in flight and says of each why it stands as it does. Effects yields the effects that are open.
// Questions yields what people are asked. Processes says which processes are alive, and what they own. Why explains one
// session: how it stands, and what can be done. Bot has the rest: Sessions, Turns, Inspect, Progress, Follow. A look
// claims nothing and writes nothing. It costs by what it yields, and by what is not finished, not by the sessions.
//
// # Acts
//
// Each act names who acts, and is a line in the log: its message is "act", with the act, the actor and what it is
// about. What an actor answers is also in the row that is answered. An act takes the orders of steps that the engine
// takes, so it may be called beside processes at work, and by several people at once. What each of them does is in its
// comment: an act that has found nothing to do says so, and is no error.
//
// Unpark and MakeDue wait for the owner of the session, for Options.Wait. If the owner is alive and goes on, they
// return a *HeldError, which names it. Abandon and Delete take the session from its owner, who is fenced off.
//
// # What a process with the Definition does
//
// An act runs nothing of a bot. A run that is due is gone on with by the watch of package bootdrain, in a process that
// has the Definition. An answer to a question lies in the inbox until such a process runs it: see approval.Desk.Run.
//
// Sweep, Raise, Check and Up are those of the databases.
//
// # Errors
//
// An error is that of the store or of the engine, as its package says. These are of this package:
//
//	ErrNoStore    the act or the look needs a store that Stores does not have
//	ErrNotFound   no bot knows the session, or there is no such effect, question or run
//	*HeldError    a living process owns the session, and goes on
package ops
