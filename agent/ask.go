package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/holdfast-go/holdfast/internal/argschema"
)

// A Question is what a tool asks somebody before it goes on.
type Question struct {
	Text string          // for a person
	Form json.RawMessage `json:",omitempty"` // JSON Schema of an object, without references; nil: the answer is a text

	// State goes back to the tool with the answer. Nobody else is shown it.
	State json.RawMessage `json:",omitempty"`
}

// maxQuestion is how many bytes a question may have, if the state has room for it.
const maxQuestion = 64 << 10

// Ask returns the error with which the Run of a tool asks. The call stays open and waits for an answer of the kind
// Input, and the turn settles, Paused. Then the tool runs again with the same arguments and the same Key, in whichever
// process: From(ctx) has what it has asked and the answer, also one of somebody who declines. It may ask again.
// Tool.Until says how long an answer is waited for.
//
// A tool that asks has done nothing yet, or marks the error with Ran: a part has happened. In both cases the ledger
// keeps the question as the result of this run, so that a crash before the turn has settled asks the other side nothing
// again. What runs after the answer is an effect of its own, by its class. It has the key of the first run, and that
// key as its Key in the ledger. A later call with the Key of the tool is asked the same, and comes to the same result.
func Ask(q Question) error { return &askError{q} }

type askError struct{ question Question }

func (q *Question) error() error { return &askError{*q} }

func (e *askError) Error() string { return "the tool asks: " + e.question.Text }

// Provide returns the answer to the question of a tool: a text, or JSON if the question has a Form.
func Provide(by, answer string) Answer { return Answer{Kind: Input, Result: answer, By: by} }

// Decline returns the answer of somebody who does not say what a tool asks. note is for the tool.
func Decline(by, note string) Answer { return Answer{Kind: Input, Result: note, Failed: true, By: by} }

// asked returns what an error asks. ran says that a part of the effect has happened.
func asked(err error) (q *Question, ran bool) {
	e, ok := errors.AsType[*askError](err)
	if !ok {
		return nil, false
	}
	_, ran = errors.AsType[*ranError](err)
	return &e.question, ran
}

// What the model is told of a question that nobody can be asked.
const (
	noneToAsk = "not executed: nobody can be asked: "
	partOnly  = "a part of it was done, and nobody can be asked about the rest: "
)

// fault says why nobody can be asked, or "".
func (q *Question) fault(most int) string {
	size := len(q.Text) + len(q.Form) + len(q.State)
	switch {
	case blank(q.Text):
		return "its question is empty"
	case size > most:
		return fmt.Sprintf("its question has %d bytes, and %d are the most", size, most)
	case q.State != nil && !json.Valid(q.State):
		return "its State is no JSON"
	case q.Form == nil:
		return ""
	}
	if _, err := form(q.Form); err != nil {
		return "its Form: " + err.Error()
	}
	return ""
}

// form returns the schema of an answer.
func form(doc json.RawMessage) (*argschema.Schema, error) {
	var s *jsonschema.Schema
	if err := json.Unmarshal(doc, &s); err != nil {
		return nil, err
	}
	if s == nil || s.Type != "object" {
		return nil, errors.New("its type is not object")
	}
	plain, err := json.Marshal(s)
	if err == nil && (bytes.Contains(plain, []byte(`"$ref"`)) || bytes.Contains(plain, []byte(`"$dynamicRef"`))) {
		err = errors.New("it has references") // one to itself would never end
	}
	if err != nil {
		return nil, err
	}
	return argschema.Resolve(s)
}

// misfit says why an answer cannot be that of a question, or "".
func misfit(doc json.RawMessage, ans *Answer, most int) string {
	switch {
	case len(ans.Result) > most:
		return fmt.Sprintf("it has more than %d bytes", most)
	case doc == nil || ans.Failed:
		return ""
	}
	schema, err := form(doc)
	if err == nil {
		var v any
		if err = json.Unmarshal([]byte(ans.Result), &v); err == nil {
			err = schema.Validate(v)
		}
	}
	if err != nil {
		return "it does not fit the form: " + err.Error()
	}
	return ""
}

// An Asking is what the tool of an open call has asked, so far as nobody who answers is to see it.
type Asking struct {
	Times int             // questions of this call
	State json.RawMessage `json:",omitempty"`
	Key   string          `json:",omitempty"` // that the other side has got
	Parts int             `json:",omitempty"` // of the effect that have happened
}

// A leg is a run of a tool: the first one, or one with an answer.
type leg struct {
	each   string // tells it from the others of the turn
	row    string // its Key in the ledger, once the other side has got a key
	key    string // that the other side has got
	mute   bool   // nobody can be asked
	asked  *Question
	answer *Answer
}

// leg returns how an open call goes on. The call has its answer, if it waits for one.
func (o *Open) leg(answers map[string]Answer) leg {
	l := leg{each: o.Call.ID}
	if a := o.Asking; a != nil {
		p := o.Waits[0]
		ans := answers[p.Call.ID]
		l = leg{
			each: fmt.Sprint(o.Call.ID, " ", a.Times), row: a.Key, key: a.Key,
			asked: &Question{p.Asks, p.Form, a.State}, answer: &ans,
		}
		if a.Key != "" && a.Times > 1 {
			l.row += fmt.Sprint(" ", a.Times)
		}
	}
	return l
}

// with returns a call with the key that the other side gets.
func (l leg) with(c Call, key string) Call {
	c.Key = cmp.Or(l.key, key)
	return c
}

// An inquiry is what the ledger keeps of a question, as the result of the run that has asked it.
type inquiry struct {
	Question
	Key  string // that the other side has got
	Part bool   // a part of the effect has happened
}

// effect runs a tool that changes something, once.
func (c calling[C]) effect(ctx context.Context, o *Open, tool *Tool) (called, error) {
	done, err := runEffect(ctx, c.turn, tool, o.Call, o.leg(c.turn.State.Answers))
	switch {
	case err != nil:
		return refusedEffect(err)
	case done.asks != nil:
		return c.asks(o, tool, *done.asks), nil
	}
	return done, nil
}

// asks lets a call wait for the answer to a question.
func (c calling[C]) asks(o *Open, tool *Tool, in inquiry) called {
	a := Asking{State: in.State, Key: in.Key}
	if o.Asking != nil {
		a.Times, a.Key, a.Parts = o.Asking.Times, cmp.Or(o.Asking.Key, in.Key), o.Asking.Parts
	}
	if a.Times++; in.Part {
		a.Parts++
	}
	if why := in.fault(min(maxQuestion, c.agent.most/len(c.turn.State.Open))); why != "" {
		if a.Parts > 0 {
			return failed(clip(partOnly+why, maxResult))
		}
		return failed(clip(noneToAsk+why, maxResult))
	}
	p := Pending{
		Call: o.Call, Kind: Input, Agent: c.agent.def.Name, Since: time.Now().UTC().Truncate(time.Millisecond),
		Of: o.Call.ID, Asks: in.Text, Form: in.Form,
	}
	p.Call.ID = "ask_" + rand.Text()[:20]
	if tool.Until > 0 {
		p.Until = p.Since.Add(tool.Until)
	}
	o.Asking, o.Waits = &a, []Pending{p}
	return called{}
}
