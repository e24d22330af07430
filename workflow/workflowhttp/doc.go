// Package workflowhttp serves the runs of workflows over HTTP: start, list, get, cancel, pause, signal, journal, index.
// It needs a [workflow.Front] alone, and links no engine:
//
//	mux.Handle("/v1/", workflowhttp.New(pg.Workflows(), &workflowhttp.Options{
//		Authorize: func(r *http.Request, action workflowhttp.Action, to workflowhttp.Target) error { … },
//	}))
//
// In the process of an engine, give it Engine.Front: then a run that a client starts begins here at once.
//
// # Routes
//
// All routes have the prefix /v1, or Options.Prefix.
//
//	POST   /workflows/{name}/runs                       start a run
//	GET    /workflows/{name}/runs                       list runs, newest first
//	GET    /workflows/{name}/runs/{run}                 a run with its status and output
//	DELETE /workflows/{name}/runs/{run}                 cancel a run
//	POST   /workflows/{name}/runs/{run}/pause           hold a run
//	POST   /workflows/{name}/runs/{run}/resume          let a held run go on
//	POST   /workflows/{name}/runs/{run}/signals/{event} send a signal
//	GET    /workflows/{name}/runs/{run}/steps           the journal with its times
//	GET    /workflows                                   the workflows, and how many runs have each status
//	POST   /topics/{pattern}/subscriptions              subscribe a workflow, a URL or a session
//	GET    /topics/{pattern}/subscriptions              the subscriptions of a pattern
//	DELETE /topics/{pattern}/subscriptions/{id}         unsubscribe
//	POST   /topics/{topic}/messages                     publish a message
//	GET    /openapi.json                                all of this as an OpenAPI document
//
// Where GET works, HEAD does. The names in a path are escaped: # is %23. No route takes a definition, because a
// workflow is code. No route deletes a run: the store's Sweep does. The routes of topics are 404 without
// Options.Subscriptions.
//
// # Start
//
// The body is {"input": …}. It may also have version, idempotencyKey, retentionDays, delaySeconds, group and debounce,
// as [workflow.StartOptions] has them. The header Idempotency-Key is another place for the key, where it may stand in
// quotes: abc and "abc" are one key there. A new run is 201. If the key is known, the answer is 200 with the run that
// has the key. With another input it is 409.
//
// # List
//
// The filters are status, since, until and input.path=value. Several filters combine. A time has the form of RFC 3339,
// or is a date. A path names a member of the input: input.user.id=42 finds the runs whose input contains
// {"user": {"id": 42}}. A value is JSON if it can be, and a string otherwise: 42 is a number, and "42" with its quotes
// is a string. An unknown parameter is refused.
//
// A page has at most limit runs, 50 unless told and 500 at most. It ends earlier if its runs are large. If more runs
// follow, next is the cursor of the next page. Pages go by start and id, so a run that starts meanwhile moves nothing.
//
// # Signals
//
// The body is the payload. Without a body, the payload is null. The header Idempotency-Key is the id of the signal: a
// second signal with the id changes nothing. 200 says that the run waited for the signal, and takes it. 202 says that
// the signal lies in the mailbox of the run, or has come before.
//
// # Topics
//
// A subscription is {"type": "workflow", "name": …}, {"type": "http", "url": …} or {"type": "session", "session": …}.
// Its id is the member id, or the header Idempotency-Key: a second one with the id and the same target changes nothing.
// A message is a body as a whole. Its id is the header Idempotency-Key: a message that is published twice starts each
// run once.
//
// # Who may do what
//
// Options.Authorize is required. It is asked for each request, before anything is read. For a subscription it is asked
// a second time, for ActionStart of the workflow whose runs the subscription starts. [HeaderPresent] lets everyone in
// who sends a header Authorization. What stands before the handler has to look at the header then.
//
// A run is found under the name of its own workflow only. So an Authorize that looks at the workflow needs no look at
// the run.
//
// # Errors
//
// Every error is application/problem+json. Its type is "/problems/", or Options.ProblemBase, and one of these:
//
//	bad-request   400  no JSON, a member or a parameter that is not known or has the wrong type
//	unauthorized  401  Options.Authorize returned an error
//	denied        403  Options.Authorize returned ErrDenied
//	not-found     404  no such route or run, or the run is of another workflow
//	method        405  the route has other methods: see Allow
//	slow-request  408  the body did not arrive in 30 seconds
//	key-reused    409  the key was used with another input, or the id of a subscription with another target
//	over          409  the run is over, and takes no signal, pause or resume
//	too-large     413  the body is larger than Options.MaxBody
//	content-type  415  the body is not application/json
//	invalid       422  a value that no store takes: a name, a version, a time, a size
//	cancelled     499  the client has gone
//	internal      500  a function has panicked, a run cannot be read, or tables are missing
//	unavailable   503  the store is away
//	timeout       504  the context of the request has ended
//
// The detail of bad-request and invalid says what is wrong. No document holds a text of a store, of a panic or of an
// error of Authorize. Each answer of 500 or more is one line in Options.Logger.
//
// After 503 and 504 the call may have taken effect. A start with a key and a signal with an id may be repeated.
package workflowhttp
