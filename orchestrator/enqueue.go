package orchestrator

import "context"

// Enqueue accepts an input for later: it is durable when Enqueue returns nil, and the call waits for no turn. It needs
// Options.Inbox.
//
// The inputs of a session that wait are run in the order in which they were accepted, each as the turn that Execute
// would run. Execute, Stream and Put run them first, so that an input which was accepted before such a call is run
// before it. The watch of package bootdrain runs them otherwise, within about a second.
//
// An input needs a request id. It is accepted once: a repeat of Enqueue with the same input is no error, and once its
// turn has settled, nothing runs again, as with Execute. With another input the id is ErrRequestReused. If Limits.Queue
// inputs wait, the error is ErrQueueFull. Calls at once may pass this bound by as many as they are. After
// ErrIndeterminate, repeat the call to find out whether the input was accepted.
//
// If a turn fails in the watch, it is tried again later, as each run is that no caller waits for. The session waits
// meanwhile. Where another run would be parked, after Limits.Attempts, this one fails for good. It also fails if
// Execute has tried it in front of an input of its own, or if Begin refuses it. Then an error is logged, events say so,
// and the inbox keeps the input as an item of the kind inbox.Failed: the newest, as many as may wait. The next input
// goes on. If a person has to answer for a turn, the inputs behind it wait, as Execute would.
//
// Abandon of a run also forgets its input, and Delete those of its session. The input, as JSON, has 1 MiB at most.
func (o *Orchestrator[S]) Enqueue(ctx context.Context, session string, in Input) error {
	err := in.check(session, o.engine.options.Limits.Input)
	switch {
	case err != nil:
	case o.engine.options.Inbox == nil:
		err = ErrNoInbox
	case in.RequestID == "":
		err = &InputError{"request id", "is missing"}
	}
	if err != nil {
		return &Error{Op: "input", Session: session, Err: err}
	}
	it, err := o.engine.waiters().queueItem(session, in)
	if err == nil {
		err = o.engine.waiters().accept(ctx, it)
	}
	if err != nil {
		return &Error{Op: "enqueue", Session: session, Err: err}
	}
	return nil
}
