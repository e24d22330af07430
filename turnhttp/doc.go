// Package turnhttp puts a bot behind HTTP. Handler serves the turns, the events, the questions and the effects of its
// sessions:
//
//	mux.Handle("/", turnhttp.Handler(bot, turnhttp.Options[State]{
//		Authorize: func(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) { … },
//		Reply:     func(res *orchestrator.Result[State]) any { return map[string]string{"text": res.State.Text} },
//	}))
//
// Two options have no default: who may do what, and what of a state leaves the process.
//
// # Routes
//
//	POST   /sessions/{id}/turns            run a turn; the header Idempotency-Key is its request id
//	GET    /sessions/{id}/turns/{key}      what has become of an input
//	GET    /sessions/{id}/events           the events of the turns, from Last-Event-ID on
//	POST   /sessions/{id}/resume           finish the turn in flight
//	POST   /sessions/{id}/unpark           make a parked run due again
//	POST   /sessions/{id}/abandon          end a run without a turn
//	POST   /sessions/{id}/stop             ask the turn in flight to stop
//	POST   /sessions/{id}/branch           begin another session from a turn of this one
//	GET    /sessions/{id}                  the turns, the run in flight and the owner
//	GET    /sessions/{id}/messages         what was said, and the run in flight
//	GET    /sessions/{id}/questions        what the bot asks a person
//	POST   /sessions/{id}/questions/{qid}  answer a question
//	GET    /sessions/{id}/effects          the effects of the ledger
//	POST   /sessions/{id}/effects/{eid}    answer for an effect in doubt
//	DELETE /sessions/{id}                  delete the session
//	GET    /openapi.json                   all of this as an OpenAPI document
//
// The names in a path are escaped: a session may hold a slash. Under a prefix, use http.StripPrefix. Where GET works,
// HEAD does.
//
// # Who may do what
//
// Each route has an [Action], and Options.Authorize is asked for it. It tells the people who talk in a session from
// those who answer what the bot asks, say what became of an effect, or delete: a customer who may do all of this
// approves a refund for themselves. The [Actor] that it returns stands in the row of what was answered, in
// orchestrator.Input.By of the turn, in its events and in the log.
//
// The origin of what POST turns takes is orchestrator.FromUser, whatever it says. That of an answer is
// orchestrator.FromAnswer. A turn that does something because a person has approved it asks for this origin.
//
// # A turn outlives its client
//
// A turn runs until Options.TurnTimeout, also without its connection. Its handler returns when the turn has
// ended, and Shutdown of the bot waits for the turn. A client that was cut off sends the same request with the same
// key. The repeat waits for the turn in flight, in any process, and gets the whole reply. Another body with a used key
// is 422. The key may stand in quotes, as the draft of the IETF has it: abc and "abc" are one key.
//
// # A turn for later
//
// With the header Prefer: respond-async, POST turns does not wait for the turn: it is 202 once the input is durable, as
// Orchestrator.Enqueue accepts it, and Location says where GET tells what has become of the input: it waits, its run is
// in flight, its turn has settled and this is the turn with its reply, or it has failed, with the problem that POST
// would have had. A repeat with the same key gets the same 202, and one without the preference waits for the reply. The
// watch of package bootdrain runs the input, in any process. If the bot has no orchestrator.Options.Inbox, the
// preference has no effect, as RFC 7240 has it: the turn runs, and there is no header Preference-Applied.
//
// # Events
//
// With Accept: text/event-stream, POST turns and POST questions/{qid} answer with server-sent events: each event of the
// turn, and last an event "reply" with the turn, or "problem" with a problem document. GET events shows the same to a
// page that was loaded again. If the bot has an Options.Stream, the id of each event is the number of Follow. A reader
// that comes back with Last-Event-ID gets each later event once, from any process. It gets 204 if nothing more comes,
// and 410 if the events are no longer kept. Without an Options.Stream the events have no ids, and GET events is 404.
//
// With ?wait=1, GET events has no 204: a reader of a session without a turn waits for the next one. So an EventSource
// stays. It comes back by itself after each turn. A reader that waits asks the stream store every two seconds.
//
// Once the stream of a session was forgotten, its numbers begin anew: an hour after the last event, or as the stream
// store is told. Then a reader with an old number misses the first events of the next turn. It finds the turn at
// GET /sessions/{id}.
//
// The events reply and problem have no id. A reader that is cut off before it finds the turn at GET /sessions/{id}.
//
// No turn waits for a reader. A reader that takes nothing for 15 seconds is cut off. While nothing happens, a comment
// is sent every 15 seconds. When the bot shuts down, the readers of GET events are cut off, and go on elsewhere.
//
// # Questions
//
// A bot that needs a person settles its turn with the question in its state. Options.Questions reads the questions from
// the newest settled state, and package approval takes the answers: see there. An answer comes with the sum of its
// question. The same answer of another Actor is 409: it was not the first. So an Actor is the id of a person, not of a
// browser or a token. If the process dies before the turn of an answer has settled, the same answer again runs it, and
// so does Run of [Options.Desk], which belongs beside the watch of package bootdrain.
//
// # What was said
//
// GET messages is for pages that show a conversation: of the settled turns, it has what the user and the bot said, the
// calls of tools and their results. Whoever may follow the events may read it, since events show the same while a turn
// runs. It has the reply of the newest turn, too. POST stop asks the turn in flight to stop, and keeps what it has
// said. POST branch with {"session": …} and a "turn" begins the session of that name from the turn of that number, or
// from the newest one, and is 201. These are there if Options.Chat is: agent.Handler sets it. Package chatpage is such
// a page.
//
// # Front ends
//
// Packages uichat and agui write a turn in the protocols of Vercel's AI SDK and of AG-UI, for routes of a program's
// own:
//
//	turn := bot.Stream(ctx, session, input, nil)
//	err := uichat.Write(w, r, turnhttp.ShowTurn(session, turn, reply))
//
// # Pages of other origins
//
// With Options.Origins, pages of these origins may call the routes, and read each answer, its Retry-After and its
// Location too. OPTIONS is answered then, and Authorize is not asked for it. The 503 of a gate of package serve says
// nothing of origins: to such a page it is a network error.
//
// # Errors
//
// Every error is application/problem+json, in an event too. Its type is "/problems/", or Options.ProblemBase, and the
// Type of orchestrator.Public, or one of these:
//
//	bad-request       400  no JSON, a member that is missing or not known, a bad id or number
//	key-missing       400  POST turns without Idempotency-Key
//	unauthorized      401  Options.Authorize returned an error, or no Actor
//	denied            403  Options.Authorize returned ErrDenied
//	not-found         404  no such route, question, effect or input, or no such turn to branch from
//	method            405  the route has other methods: see Allow
//	slow-request      408  the body did not arrive in 30 seconds
//	answered          409  another answer was first
//	changed           409  the question is no longer what was shown
//	held              409  a process may be at work on the effect
//	expired           410  the question has expired
//	too-large         413  the body is larger than Options.MaxBody
//	content-type      415  the body is not application/json
//	too-many-readers  503  GET events: more than Options.MaxReaders are open
//	turn-failed       502  last event of GET events: the turn has failed
//
// The detail of a bad-request says which member, header or parameter is wrong, and what is taken.
//
// No document holds a text of the request, of the bot, of a store or of an error. There are two exceptions. The text of
// an *orchestrator.InputError is for the client. A member that is not known is named, if its name is up to 64 letters,
// digits and some signs. The handler logs nothing.
package turnhttp
