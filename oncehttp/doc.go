// Package oncehttp records the calls of a model, so that a crash asks the model nothing twice.
//
// A [Recorder] stands in the HTTP client of the model: as a middleware of an SDK, or as its [http.RoundTripper]. It
// records each reply in the ledger of the turn, by [orchestrator.Once] with the class [ledger.Pure]. If the process
// dies, the next one gets the recorded reply, and the model is not asked:
//
//	recorder := oncehttp.New(nil)
//	client := openai.NewClient(option.WithMiddleware(recorder.Middleware)) // openai-go
//	client := &http.Client{Transport: recorder.Transport(nil)}             // any other SDK
//
// The intent says whose calls these are:
//
//	func reply(ctx context.Context, t *orchestrator.Turn[State]) error {
//		ctx = oncehttp.With(ctx, t, "model")
//		… client.Chat.Completions.New(ctx, …)
//
// A request whose context comes neither from [With] nor from [Unrecorded] is [ErrNoTurn]. So no call is left
// unrecorded by mistake. The context of an agent's Model comes from With: its calls are named "model". That of an
// agent's tool comes from Unrecorded.
//
// # Which call is which
//
// A call is the same as one before if it has the same place and the same content. The place is that of an effect: the
// run, the iteration, the intent with its item, and the name given to [With]. The content is the method, the URL and
// the body. So a model that is asked something else after a resume is asked, and calls may run at once and in any
// order. Equal calls of one place are counted. If a call has failed, its retry has its number: an SDK may retry.
//
// A body that is different each time, because it has the time or a random boundary in it, is never found again.
//
// # What is recorded
//
// Recorded are replies of a status from 200 to 299 that were read to their end: the status, the body, Content-Type and
// Content-Encoding. So are the headers that SDKs show: Request-Id, X-Request-Id, X-Amzn-Requestid, Apim-Request-Id,
// Retry-After, Retry-After-Ms, Openai-Processing-Ms, and those that begin with X-Ratelimit- or Anthropic-Ratelimit-. Of
// these there are at most 32, with values of up to 256 bytes, and they come again as they were then. No other header is
// recorded, and nothing of the request: no cookie, no key. [Options.Keep] may leave out replies that are of no use. A
// reply that is larger than a ledger takes is passed on and not recorded, which is logged.
//
// A stream is passed on as it comes. Its end is passed on when it is recorded. A recorded stream comes at once. A
// stream that is closed before its end is not recorded. Because SDKs close a stream after its last event, Close waits a
// moment for the end.
//
// # Errors
//
//	ErrNoTurn                 the request belongs to no turn
//	ErrOther                  an earlier owner has recorded another reply for this request meanwhile; ask again
//	orchestrator.ErrNoLedger  the bot has no ledger
//
// Other errors are those of the client below, and of [orchestrator.Once]. If a request was never sent, because no
// connection came about, its error has the mark of [ledger.NotDone]: see [NotSent], which is also for the effects of a
// bot. ErrOther and the errors of the ledger come where the end of the body would come. If the ledger has not taken a
// reply, each later request with the same context gets this error: the model is not asked again.
package oncehttp
