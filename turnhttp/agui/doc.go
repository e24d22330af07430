// Package agui serves a bot to front ends that speak the protocol of AG-UI 1.0. [Handler] takes what a client of AG-UI
// sends, such as HttpAgent of npm's @ag-ui/client, and [Write] writes a turn on a route of a program's own.
//
//	h := agui.Handler(a.Bot(), a.Options(turnhttp.Options[State]{Authorize: …}), nil)
//	mux.Handle("/agent", h)
//	mux.Handle("/agent/connect", h)
//
// # What a client says
//
// The thread is the session. The newest message of the user is said, and nothing else of the conversation, which the
// bot has: messages of the roles system and developer are not read. The id of the message is the request id. So a
// client that runs again, with a new run id too, gets the turn that there is, and pays nothing twice. The same id with
// another text is 422.
//
// An entry of resume answers the question of an interrupt by the rules of package approval: the first answer wins, it
// is bound to what was shown, and it is that of the Actor. The id of an interrupt has the id of the question and the
// sum of what was shown, so that a client binds its answer without knowing. The client needs ActionAnswer, or
// ActionClient for a question with Question.Client. The payload is what Options.Answer reads: {"approved": true} of
// an agent. An entry with the status cancelled answers nothing: the question stays. A client sees an interrupt only
// if it may answer: with ActionRead and ActionAnswer all of them, and with ActionClient those of the client's side.
//
// A message of the role tool behind the newest message of the user is the result of a client tool, for a client with
// ActionClient or ActionAnswer: {"result": …}, or with "failed" if the message has an error. The run that has made the
// call has the outcome success, with pendingToolCallIds.
//
// # What a client gets
//
// See [Write]. Beside that, with Options.State a STATE_SNAPSHOT comes if the client has another state than the newest
// settled turn, and at the end a STATE_DELTA, or a snapshot if that is shorter. The metadata of RUN_FINISHED has
// holdfast.run and holdfast.cost. A text that is void is taken out of the messages of the client by a
// MESSAGES_SNAPSHOT: a page needs no code for that.
//
// # A stream that ends is not an answer that ended
//
// A run ends with RUN_FINISHED or RUN_ERROR. HttpAgent reports no error if neither has come: a proxy that asks the
// service with HTTP/1.0 makes a killed process look so. So a page runs again until the end has come:
//
//	async function untilEnd(agent, parameters = {}) {
//	  const runId = crypto.randomUUID();
//	  for (let ended = false; !ended; ) {
//	    const run = agent.runAgent({ ...parameters, runId }, {
//	      onRunFinishedEvent: () => { ended = true; },
//	      onRunErrorEvent: () => { ended = true; },
//	    });
//	    await run.catch((err) => { if (err.status < 500) throw err; });
//	    if (!ended) await new Promise((go) => setTimeout(go, 1000));
//	  }
//	}
//
// Each event has a cursor in its metadata, holdfast.after. HttpAgent keeps it with the message, and sends the message
// with the next request. So the handler knows what the client has of the run, and goes on from there, in any process.
// If the events are no longer kept, or the client has no cursor, its messages of the run are taken back and told anew.
// This needs an Options.Stream of the bot.
//
// # A page that was loaded again
//
// POST …/connect, with the same body, shows the thread as it is and says nothing: what was said in the settled turns,
// if Options.Chat is there, the turn in flight, the state, and the questions that the client may answer. An HttpAgent
// with this URL, or connect of a class of your own, asks it. It needs ActionFollow.
package agui
