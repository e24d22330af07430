// Package agent runs a model and its tools as the turns of a session.
//
//	a, err := agent.New(agent.Definition[None]{
//		Name: "shop", Model: model, Instructions: "You work for a shop.",
//		Tools: []agent.Tool{
//			agent.Read("order", "looks an order up", shop.Order),
//			agent.Effect[Refund, Receipt]{Name: "refund", Description: "pays an order back", Run: pay.Refund}.Tool(),
//		},
//	}, agent.InMemory(), nil)
//	…
//	o, err := a.Say(ctx, "customer-7", agent.Text("Where is A-1042?"), nil)
//
// An agent is a definition of package orchestrator with two intents: model asks, and tools runs what the model has
// asked for. Everything of a session that changes in one step is in the [State] that its turns settle. Every change of
// a session is a turn: what a user says, an answer, an update, a branch. What was said is in a transcript, and the
// state names it. So each promise of the engine is a promise of the session.
//
// A reply is durable before a tool of it starts, and a crash in a tool asks no model. Between a reply and its save
// there is a moment in which a crash loses the reply. Then the model is asked once more.
//
// # Whoever is waited for
//
// A call of a tool may need somebody: the caller's side runs it (Client), a person has to agree (Approval), or another
// agent does it in a session of its own. What can run of a reply runs. If calls remain, the turn settles, and the
// session is Paused. Nothing is held while it waits. Answer is the next turn.
//
// # What went wrong
//
// What has happened in the world does not go away because a model fails. If the model fails after a tool has run or an
// answer was taken, the turn settles, Failed, with all that was said, and Continue goes on. If nothing has happened
// yet, the turn fails, and the session is as it was. In a session with a budget, a cost is something that has happened.
//
// # Models
//
// The agent asks a model again if it fails: [Definition].Retry says how often. A pause is never longer than the time
// that the turn has left, and Stop ends it. What a failed attempt has said is void for front ends:
// the next words have another Attempt in their [orchestrator.Event]. What an attempt has cost counts, and MaxCost is
// looked at before each one. A crash begins the attempts anew. [Fallback] asks other models.
//
// The error of a Model says whether another attempt may help:
//
//	retry.Permanent(err)   none can: the key is wrong, the request is refused
//	ErrTooLong             what was said is too long; none can, unless less is said
//	retry.After(err, d)    not before a time. If that is longer than MaxRetryAfter, there is none
//	any other error        it may: a timeout, a server that has too much to do. A reply of nothing is one, too
//
// [HTTPError] marks an error by the response of a server. A panic is final. A model that takes longer than ReplyTimeout
// has failed. A model that goes on after its context has ended, for longer than Limits.SettleTimeout, is left behind
// and not asked again: its goroutine stays until it returns.
//
// # Errors
//
//	ErrPending   Say, Continue: calls wait for an answer
//	ErrNoCall    Answer: no such call waits
//	ErrAnswered  Answer: another answer was first
//	ErrKind      Answer: the answer is not of the kind that the call waits for
//	ErrIdle      Continue, Stop: there is nothing to continue or to stop
//	ErrExists    Create, Branch: the session exists
//	ErrUnknown   the session does not exist
//	ErrStale     Update: the session has another version
//	ErrReserved  Update: the function has changed what only the agent itself changes
//	ErrParted    Update: the messages that stay would have a call without its result
//	ErrTooLong   Say, Continue: what was said is longer than the model takes
//	ErrNoLoop    Recorded, Once: the context is not that of a Loop
//
// Other errors are those of package orchestrator. A refusal is also an *orchestrator.InputError.
package agent
