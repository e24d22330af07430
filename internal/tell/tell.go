// Package tell writes a turn in the protocol of a front end.
package tell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A Protocol is the protocol of a front end. Its methods send what they are called with.
type Protocol interface {
	// Begin begins the answer. Nothing but Fail may come before it.
	Begin(run string)

	// Iteration begins an iteration. What was begun in another has ended.
	Iteration()

	// Intent begins an intent, and Ended ends it. fault says why it has brought nothing; "" means that it has.
	Intent(*Doing)
	Ended(d *Doing, fault string)

	// Call shows a call of a tool with its input. The same call may be shown again, with another input. Result shows
	// what has come of it: the output, which is JSON, or a fault.
	Call(*Call)
	Result(c *Call, output json.RawMessage, fault string)

	// Undo makes a call void, which is shown no more: fault says why.
	Undo(c *Call, fault string)

	// Reasoning shows what the model has thought.
	Reasoning(id, text string)

	// Text begins a text, Say goes on with it, and Close ends it. If the text is void, it is not to be shown any more.
	Text(*Words)
	Say(w *Words, delta string)
	Close(w *Words, void bool)

	// Retract makes a text void that has ended.
	Retract(*Words)

	// One of these ends the answer.
	Finish(Reply)
	Suspend(front.Problem)
	Stop()
	Fail(front.Problem)
}

// Run sends a Show. It returns the error that the front end was told of. The header marks an answer that is no problem
// document; "" is none.
func Run(
	w http.ResponseWriter, r *http.Request, s turnhttp.Show, header string, to func(*front.Sender) Protocol,
) error {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	out := front.NewSender(w, gone)
	defer out.Close()
	p := to(out)
	t := &teller{to: p, run: s.Run, tools: s.Tools, part: s.Part}
	reply, err := foreign.Caught("Show", func() (Reply, error) {
		reply, err := t.all(ctx, s)
		if err != nil || ctx.Err() != nil {
			return Reply{}, err
		}
		return encoded(s.Session, reply)
	})
	foreign.Abort(err)
	foreign.Log(ctx, err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	told := logtext.Shield(err)
	switch doc := front.Of(told); {
	case err == nil:
		t.begin(cmp.Or(reply.Run, s.Session))
		t.conclude(reply)
	case out.Settle():
		if !t.begun && errors.Is(told, orchestrator.ErrNothingToResume) {
			return front.Empty(w)
		}
		w.Header().Del(header)
		front.Write(w, err)
	case doc.Status == http.StatusAccepted:
		t.begin(doc.Run)
		t.endAll(isUnknown)
		p.Suspend(doc)
	case errors.Is(told, orchestrator.ErrAbandoned):
		t.begin(doc.Run)
		t.endAll(didNotEnd)
		p.Stop()
	default:
		t.endAll(didNotEnd)
		p.Fail(doc)
	}
	return err
}

// all sends the events, and returns the outcome.
func (t *teller) all(ctx context.Context, s turnhttp.Show) (reply turnhttp.Reply, _ error) {
	var last orchestrator.Event
	for shown, err := range s.Events(ctx) {
		if err != nil {
			return reply, err
		}
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		last = shown.Event
		t.event(last)
	}
	return s.Outcome(ctx, last)
}

// A Reply is a turnhttp.Reply, with what it holds of the bot as JSON. Data is nil if there is none.
type Reply struct {
	turnhttp.Reply
	Data      json.RawMessage
	Questions []front.Question
}

// encoded returns the reply of a session.
func encoded(session string, r turnhttp.Reply) (told Reply, err error) {
	told.Reply = r
	if r.Data != nil {
		if told.Data, err = json.Marshal(r.Data); err != nil {
			return told, err
		}
		if string(told.Data) == "null" { // AG-UI has no such result
			told.Data = nil
		}
	}
	for _, q := range r.Questions {
		doc := front.Question{ID: q.ID}
		if doc.Shown, doc.Sum, err = q.Encode(session); err != nil {
			return told, err
		}
		if !q.Expires.IsZero() {
			at := q.Expires.UTC()
			doc.Expires = &at
		}
		told.Questions = append(told.Questions, doc)
	}
	return told, nil
}

// None is a value that is not shown.
var None = json.RawMessage("{}")
