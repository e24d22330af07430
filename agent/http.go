package agent

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// errBlank refuses a message that says nothing.
var errBlank = &orchestrator.InputError{Field: "message", Reason: "is empty"}

// Handler serves the agent by package turnhttp: a user says things, and a desk answers the calls that wait, as its
// questions. Of o it sets Questions, Answer, Arrived, Inbox, Ledger and Chat, and Reply if that is nil. Options.Input
// may still read the body: whatever it returns is what a user says. Authorize tells users from the desk: ActionTurn
// says something, ActionAnswer answers, ActionClient answers for client tools and what tools ask, and approves nothing,
// and ActionBranch begins a session from a turn of another. The agent needs an Inbox. With Prefer: respond-async a user
// says something for later, if orchestrator.Options.Inbox was given to New. Package chatpage has a page for these
// routes.
//
// Use no turnhttp.Handler of your own on Bot with an Input that takes data from clients: the data of an input says what
// the input is, and a client must not.
func Handler[C any](a *Agent[C], o turnhttp.Options[State[C]]) http.Handler {
	return turnhttp.Handler(a.bot, a.Options(o))
}

// Answers runs the answers that Handler has taken, and whose process has died: see approval.Desk.Run. Give it the
// options of Handler.
func Answers[C any](ctx context.Context, a *Agent[C], o turnhttp.Options[State[C]]) error {
	return a.Options(o).Desk(a.bot).Run(ctx)
}

// Options returns o with what is the agent's, as [Handler] sets it: for the handlers of front ends, and for one of your
// own on Bot.
func (a *Agent[C]) Options(o turnhttp.Options[State[C]]) turnhttp.Options[State[C]] {
	read := o.Input
	o.Input = func(r *http.Request) (in orchestrator.Input, err error) {
		if read != nil {
			in, err = read(r)
		} else {
			var body struct {
				Message string `json:"message"`
			}
			err = turnhttp.ReadJSON(r, &body)
			in.Text = body.Message
		}
		return a.Input(in), err
	}
	o.Arrived = func(ctx context.Context, session string, in orchestrator.Input) error {
		switch {
		case reserved(in.RequestID):
			return &orchestrator.InputError{Field: "Idempotency-Key", Reason: "begins with a word that the agent uses"}
		case blank(in.Text): // whoever does not wait for the turn is told too
			return errBlank
		case a.def.Steer == IntoTurn && replaces(in): // the turn in flight is not what it is about
			return nil
		}
		return a.steer(ctx, session, in)
	}
	if o.Reply == nil {
		o.Reply = replyOf[C]
	}
	o.Questions, o.Answer, o.Inbox, o.Ledger = questions[C], questionInput, a.stores.Inbox, a.stores.Ledger
	o.Chat = chat[C]{a}
	return o
}

// A chat is an agent as package turnhttp needs it.
type chat[C any] struct{ *Agent[C] }

// Messages returns a page of what was said, also of what a summary stands for.
func (c chat[C]) Messages(
	ctx context.Context, session string, before, limit int,
) (all []message.Message, first int, err error) {
	r, err := c.newest(ctx, session)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	s := &r.State
	spans := s.named()
	told := int(transcript.Count(spans)) // what the tail has comes behind it
	end := min(before, told+len(s.Tail))
	first = max(0, end-limit)
	if n := min(end, told); first < n {
		spans = newest(transcript.First(spans, int64(n)), int64(n-first))
		for m, err := range c.stores.Transcript.Read(ctx, c.key(session), spans) { // the cache is for the model
			if err != nil {
				return nil, 0, err
			}
			all = append(all, m)
		}
	}
	all = append(all, s.Tail[max(0, first-told):max(0, end-told)]...)
	for i := range all { // what a fork has of its source is of turn 0
		if s.Self != session || first+i < s.Forked {
			all[i].Turn = 0
		}
	}
	return all, first, nil
}

// Stop is Agent.Stop. A run that has ended meanwhile is stopped.
func (c chat[C]) Stop(ctx context.Context, session, run, reason string) error {
	return c.halt(ctx, session, run, reason)
}

// Branch is Agent.Branch, with the number of a turn and the errors of a turnhttp.Chat.
func (c chat[C]) Branch(ctx context.Context, from string, turn int, to string) error {
	var err error
	if turn == checkpoint.Newest {
		var r *orchestrator.Result[State[C]]
		if r, err = c.newest(ctx, from); err == nil {
			turn = r.Turn
		}
	}
	if err == nil {
		err = c.Agent.Branch(ctx, from, turn+1, to)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		return checkpoint.ErrNotFound
	case errors.Is(err, ErrExists):
		return checkpoint.ErrConflict
	}
	return err
}

// replyOf is what a client sees of a turn.
func replyOf[C any](r *orchestrator.Result[State[C]]) any {
	return struct {
		Text   string          `json:"text"`
		Status Status          `json:"status"`
		Reason Reason          `json:"reason,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}{r.State.Output, r.State.Status, r.State.Reason, r.State.Result}
}

// shown is what a person sees of a call that waits.
type shown struct {
	Agent string          `json:"agent"`
	Kind  Kind            `json:"kind"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`

	// Of Input: the call, the question and its form.
	Call string          `json:"call,omitempty"`
	Asks string          `json:"asks,omitempty"`
	Form json.RawMessage `json:"form,omitempty"`
}

// questions are the calls that wait. The id of a question is that of the call.
func questions[C any](s *State[C]) (all []approval.Question) {
	for _, p := range s.missing() {
		args := p.Call.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		all = append(all, approval.Question{
			ID: p.Call.ID, Expires: p.Until, Client: p.Kind == Client || p.Kind == Input,
			Shown: shown{p.Agent, p.Kind, p.Call.Name, args, p.Of, p.Asks, p.Form},
		})
	}
	return all
}

// questionInput makes the input of an answer: {"approved": true, "note": …} of an approval, or {"result": …,
// "failed": …} of what the caller's side has run, or of what a tool has asked. The answer to a form is JSON, or a text
// that is JSON.
func questionInput(q approval.Question, given approval.Answer) (orchestrator.Input, error) {
	var body struct {
		Approved *bool           `json:"approved"`
		Note     string          `json:"note"`
		Result   json.RawMessage `json:"result"`
		Failed   bool            `json:"failed"`
	}
	if err := json.Unmarshal(given.Data, &body); err != nil {
		return orchestrator.Input{}, err
	}
	asks := q.Shown.(shown)
	ans := Answer{Kind: asks.Kind, By: given.By, Failed: body.Failed}
	if string(body.Result) == "null" {
		body.Result = nil
	}
	isText := json.Unmarshal(body.Result, &ans.Result) == nil
	switch {
	case ans.Kind == Approval && body.Approved != nil && body.Result == nil:
		ans.Approved, ans.Note, ans.Failed = *body.Approved, body.Note, false
	case ans.Kind == Client && isText && body.Approved == nil:
	case ans.Kind == Client && body.Result != nil && body.Approved == nil:
		ans.Result = string(body.Result)
	case ans.Kind == Input && (isText || body.Result == nil && body.Failed) && body.Approved == nil:
	case ans.Kind == Input && asks.Form != nil && body.Result != nil && body.Approved == nil:
		ans.Result = string(body.Result)
	default:
		return orchestrator.Input{}, &orchestrator.InputError{
			Field:  "answer",
			Reason: `an approval takes {"approved": …, "note": …}, and anything else {"result": …, "failed": …}`,
		}
	}
	if wrong := misfit(asks.Form, &ans, math.MaxInt); wrong != "" {
		return orchestrator.Input{}, &orchestrator.InputError{Field: "answer", Reason: wrong}
	}
	return answerInput(q.ID, ans, false), nil
}
