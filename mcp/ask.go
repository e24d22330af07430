package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
)

// elicit is the method by which a server asks a person within a call.
const elicit = "elicitation/create"

// A talk is what the server has asked about a call, and what people have answered. It is the State of each question.
type talk struct {
	Requests  map[string]*request
	Responses map[string]*sdk.ElicitResult
	Returned  string `json:",omitempty"` // what the server wants back with the answers

	// Within says that the server asks while the call is under way: it has ended the call without the answer, and is
	// given the answer when it asks again. Links says that it wants a person to open addresses, and the call once more.
	Within, Links bool `json:",omitempty"`
}

// A request is one question of the server.
type request struct {
	Message string
	URL     string          `json:",omitempty"`
	Form    json.RawMessage `json:",omitempty"`
}

func requestOf(p *sdk.ElicitParams) (*request, error) {
	if p == nil {
		return nil, errors.New("it asks nothing")
	}
	r := &request{Message: p.Message, URL: p.URL}
	if p.URL == "" {
		form, err := json.Marshal(p.RequestedSchema)
		if err != nil || p.RequestedSchema == nil {
			return nil, errors.New("it asks for a form without a schema")
		}
		r.Form = form
	}
	return r, nil
}

func (r *request) same(s *request) bool {
	return r.Message == s.Message && r.URL == s.URL && bytes.Equal(r.Form, s.Form)
}

// resumed returns the talk that a call goes on with, with the answer that has come.
func resumed(c *agent.Caller) (*talk, error) {
	t := new(talk)
	if c.Asked == nil || c.Answer == nil {
		return t, nil
	}
	if err := json.Unmarshal(c.Asked.State, t); err != nil {
		return nil, ledger.NotDone(fmt.Errorf("not executed: what the server has asked cannot be read: %w", err))
	}
	id, ok := t.open()
	if !ok {
		return t, nil
	}
	res := &sdk.ElicitResult{Action: "accept"}
	switch {
	case c.Answer.Failed && c.Answer.By == agent.OutOfTime:
		res.Action = "cancel"
	case c.Answer.Failed:
		res.Action = "decline"
	case t.Requests[id].Form != nil:
		if err := json.Unmarshal([]byte(c.Answer.Result), &res.Content); err != nil {
			return nil, ledger.NotDone(fmt.Errorf("not executed: the answer is no form: %w", err))
		}
	}
	if t.Links && c.Answer.Failed {
		return nil, ledger.NotDone(errors.New(strings.TrimSuffix("not executed: declined. "+c.Answer.Result, " ")))
	}
	if t.Responses == nil {
		t.Responses = make(map[string]*sdk.ElicitResult)
	}
	t.Responses[id] = res
	return t, nil
}

// open returns the first request that has no answer.
func (t *talk) open() (id string, ok bool) {
	for _, id := range slices.Sorted(maps.Keys(t.Requests)) {
		if t.Responses[id] == nil {
			return id, true
		}
	}
	return "", false
}

// next returns the question that comes next, as the error of the tool; nil if there is none.
func (t *talk) next() error {
	id, ok := t.open()
	if !ok {
		return nil
	}
	state, err := json.Marshal(t)
	if err != nil {
		return ledger.NotDone(fmt.Errorf("not executed: %w", err))
	}
	r := t.Requests[id]
	text := strings.TrimSpace(r.Message + " " + r.URL)
	if text == "" {
		text = "The server asks for this form."
	}
	return agent.Ask(agent.Question{Text: text, Form: r.Form, State: state})
}

// into sets what the server gets back with the answers.
func (t *talk) into(p *sdk.CallToolParams) {
	if t.Within || t.Links {
		return
	}
	p.RequestState = t.Returned
	for id, res := range t.Responses {
		if p.InputResponses == nil {
			p.InputResponses = make(sdk.InputResponseMap)
		}
		p.InputResponses[id] = res
	}
}

// required returns what a result asks for, as the error of the tool. The call has done nothing yet: so says the
// protocol.
func required(r *sdk.CallToolResult) error {
	t := &talk{Requests: make(map[string]*request), Returned: r.RequestState}
	refusal := new(InputRequiredError)
	for id, q := range r.InputRequests {
		p, ok := q.(*sdk.ElicitParams)
		if !ok {
			kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", q), "*mcp."), "Params")
			refusal.Asks = append(refusal.Asks, kind)
			continue
		}
		asks, err := requestOf(p)
		if err != nil {
			refusal.Asks = append(refusal.Asks, err.Error())
			continue
		}
		t.Requests[id] = asks
	}
	if slices.Sort(refusal.Asks); len(refusal.Asks) > 0 {
		return ledger.NotDone(refusal)
	}
	if next := t.next(); next != nil {
		return next
	}
	return ledger.NotDone(errors.New("not executed: the server is busy, and wants the call later"))
}

// linked returns what the error of a server asks for that wants a person to open addresses first.
func linked(data json.RawMessage) error {
	var of struct{ Elicitations []*sdk.ElicitParams }
	t := &talk{Requests: make(map[string]*request), Links: true}
	if json.Unmarshal(data, &of) == nil {
		for i, p := range of.Elicitations {
			if p != nil && p.URL != "" {
				t.Requests[fmt.Sprintf("%04d", i)] = &request{Message: p.Message, URL: p.URL}
			}
		}
	}
	if next := t.next(); next != nil {
		return next
	}
	return ledger.NotDone(&InputRequiredError{Asks: []string{"an address that it does not name"}})
}

// A within is a call that is under way, and what the server has asked about it meanwhile.
type within struct {
	talk  *talk
	again bool // it may be made again with the answer
	asked []*request
}

// enter notes a call that is under way.
func (l *link) enter(w *within) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under = append(l.under, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.under = slices.DeleteFunc(l.under, func(x *within) bool { return x == w })
	}
}

// elicit answers what a server asks within a call, at once: with an answer that is there, or with cancel. The protocol
// does not say which call a question is about. So it is only kept if one call is under way.
func (l *link) elicit(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	q, err := requestOf(r.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.under {
		for id, was := range w.talk.Requests {
			if res := w.talk.Responses[id]; w.talk.Within && res != nil && was.same(q) {
				return res, nil
			}
		}
	}
	if len(l.under) == 1 && l.under[0].again {
		l.under[0].asked = append(l.under[0].asked, q)
	}
	return &sdk.ElicitResult{Action: "cancel"}, nil
}

// unanswered returns what the server has asked within a call that came to nothing because it got no answer.
func (w *within) unanswered() error {
	t := &talk{Requests: maps.Clone(w.talk.Requests), Responses: w.talk.Responses, Within: true}
	if t.Requests == nil {
		t.Requests = make(map[string]*request)
	}
	for _, q := range w.asked {
		known := func(was *request) bool { return was.same(q) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(t.Requests)), known) {
			t.Requests[fmt.Sprintf("%04d", len(t.Requests))] = q
		}
	}
	return t.next()
}

// harmless refuses requests that the library does not expect: it would panic.
func harmless(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if e, ok := r.(*sdk.ElicitRequest); method == elicit && (!ok || e.Params == nil) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there are no parameters"}
		}
		return next(ctx, method, r)
	}
}
