package agent

import (
	"encoding/json"
	"net/http"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Handler serves the agent by package turnhttp: a user says things, and a desk answers the calls that wait, as its
// questions. Of o it sets Questions, Answer, Inbox and Ledger, and Reply if that is nil. Options.Input may still read
// the body: whatever it returns is what a user says. Authorize tells users from the desk: ActionTurn says something,
// and ActionAnswer answers. The agent needs an Inbox.
//
// Use no turnhttp.Handler of your own on Bot with an Input that takes data from clients: the data of an input says what
// the input is, and a client must not.
func Handler[C any](a *Agent[C], o turnhttp.Options[State[C]]) http.Handler {
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
	if o.Reply == nil {
		o.Reply = replyOf[C]
	}
	o.Questions, o.Answer, o.Inbox, o.Ledger = questions[C], questionInput, a.stores.Inbox, a.stores.Ledger
	return turnhttp.Handler(a.bot, o)
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
}

// questions are the calls that wait. The id of a question is that of the call.
func questions[C any](s *State[C]) (all []turnhttp.Question) {
	for _, p := range s.missing() {
		args := p.Call.Args
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		all = append(all, turnhttp.Question{
			ID: p.Call.ID, Shown: shown{Agent: p.Agent, Kind: p.Kind, Tool: p.Call.Name, Args: args},
		})
	}
	return all
}

// questionInput makes the input of an answer: {"approved": true, "note": …} of an approval, or {"result": …,
// "failed": …} of what the caller's side has run.
func questionInput(q turnhttp.Question, given turnhttp.Answer) (orchestrator.Input, error) {
	var body struct {
		Approved *bool   `json:"approved"`
		Note     string  `json:"note"`
		Result   *string `json:"result"`
		Failed   bool    `json:"failed"`
	}
	if err := json.Unmarshal(given.Data, &body); err != nil {
		return orchestrator.Input{}, err
	}
	ans := Answer{Kind: q.Shown.(shown).Kind, By: string(given.By)}
	switch {
	case ans.Kind == Approval && body.Approved != nil && body.Result == nil:
		ans.Approved, ans.Note = *body.Approved, body.Note
	case ans.Kind == Client && body.Result != nil && body.Approved == nil:
		ans.Result, ans.Failed = *body.Result, body.Failed
	default:
		return orchestrator.Input{}, &orchestrator.InputError{
			Field: "answer", Reason: `an approval takes {"approved": …, "note": …}, and a client tool {"result": …, "failed": …}`,
		}
	}
	return answerInput(q.ID, ans, false), nil
}
