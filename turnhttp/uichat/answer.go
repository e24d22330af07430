package uichat

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// What a page is told of an answer, as turnhttp.Handler says it.
var (
	errAnswered = httpjson.Refuse(http.StatusConflict, "answered", "Another answer was first.")
	errChanged  = httpjson.Refuse(http.StatusConflict, "changed", "The question has changed. Look at it again.")
	errExpired  = httpjson.Refuse(http.StatusGone, "expired", "The question has expired.")
)

// mostAnswers is how many answers a request may have.
const mostAnswers = 64

// A given is an answer of a page to the question of a call.
type given struct {
	id, sum string
	data    json.RawMessage
	output  bool // of a call that the page has run
	denied  bool
}

// answers returns the answers in the parts of a message.
func answers(parts []sentPart) (all []given, err error) {
	for _, p := range parts {
		g := given{id: p.ToolCallID, sum: p.CallMetadata.Holdfast.Sum}
		switch {
		case p.State == "approval-responded" && p.Approval.Approved != nil:
			var of bool
			if g.sum, g.id, of = strings.Cut(p.Approval.ID, "/"); !of {
				return nil, httpjson.ErrNotFound
			}
			g.denied = !*p.Approval.Approved
			g.data, err = json.Marshal(map[string]any{"approved": !g.denied, "note": p.Approval.Reason})
		case p.Executed:
			continue
		case p.State == "output-available" && g.sum != "":
			g.output = true
			g.data, err = json.Marshal(map[string]any{"result": p.Output, "failed": false})
		case p.State == "output-error" && g.sum != "":
			g.output = true
			g.data, err = json.Marshal(map[string]any{"result": p.ErrorText, "failed": true})
		default:
			continue
		}
		if err != nil {
			return nil, bad("The parts of a message have to be those of a UIMessage.")
		}
		all = append(all, g)
	}
	return all, nil
}

// postAnswers takes the answers that a message of the assistant has got on the page. Each is a turn, and the page is
// shown the last one.
func (s *server[S]) postAnswers(
	w http.ResponseWriter, r *http.Request, session string, m sentMessage, parts []sentPart,
) error {
	to, err := s.admit(r, session, turnhttp.ActionAnswer)
	if errors.Is(err, httpjson.ErrForbidden) {
		to, err = s.admit(r, session, turnhttp.ActionClient)
		to.client = true
	}
	if err != nil {
		return err
	}
	all, err := answers(parts)
	switch {
	case err != nil:
		return err
	case s.desk == nil:
		return httpjson.ErrNotFound
	case len(all) == 0:
		return bad("The newest message is of the assistant, and answers nothing.")
	case len(all) > mostAnswers:
		return bad("A request may have 64 answers.")
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	if all, err = s.open(ctx, to.session, all); err != nil {
		return err
	}
	g := newPage()
	g.message = m.ID
	for _, p := range parts {
		if p.ToolCallID != "" {
			g.knows[p.ToolCallID] = true
		}
	}
	for i, a := range all {
		if !a.output {
			g.denied[a.id] = a.denied
		}
		p, err := s.desk.Post(ctx, to.session, a.id, approval.Answer{
			Data: a.data, Sum: a.sum, By: string(to.actor), Client: to.client,
		})
		if err != nil {
			return unanswered(err)
		}
		if i == len(all)-1 {
			s.answered(ctx, w, r, to.session, p, g)
			return nil
		}
		res, err := s.bot.Execute(ctx, to.session, p.Input, nil)
		if err := p.Done(ctx, res, err); err != nil {
			return unanswered(err)
		}
	}
	return nil
}

// open leaves out the outputs of calls that wait no more, unless all do: the page sends those of the whole message.
func (s *server[S]) open(ctx context.Context, session string, all []given) (left []given, err error) {
	asked, err := s.desk.Asked(ctx, session)
	if err != nil {
		return nil, err
	}
	waits := make(map[string]bool)
	for _, q := range asked {
		waits[q.ID] = true
	}
	for _, g := range all {
		if !g.output || waits[g.id] {
			left = append(left, g)
		}
	}
	if len(left) == 0 {
		left = all[len(all)-1:] // a repeat
	}
	return left, nil
}

// answered shows the turn that takes an answer.
func (s *server[S]) answered(
	ctx context.Context, w http.ResponseWriter, r *http.Request, session string, p *approval.Posted[S], g *page,
) {
	turn := s.bot.Stream(ctx, session, p.Input, nil)
	show := turnhttp.ShowTurn(session, turn, s.reply)
	outcome := show.Outcome
	show.Outcome = func(inner context.Context, last orchestrator.Event) (turnhttp.Reply, error) {
		reply, err := outcome(inner, last)
		res, failed := turn.Result()
		if told := p.Done(ctx, res, failed); told != nil {
			err = told
		}
		if err == nil {
			g.results = s.results(ctx, session, g.denied)
		}
		return reply, unanswered(err)
	}
	s.write(w, r, show, g)
	if res, err := turn.Result(); r.Context().Err() != nil { // nobody has asked for the outcome
		_ = p.Done(ctx, res, err)
	}
}

// results returns the results of calls that the history has. A history that cannot be read has none: the page reads it
// again.
func (s *server[S]) results(ctx context.Context, session string, of map[string]bool) map[string]*uiPart {
	if len(of) == 0 {
		return nil
	}
	h, err := s.said(ctx, session, math.MaxInt, pageOf)
	if err != nil {
		return nil
	}
	found := make(map[string]*uiPart)
	for _, m := range h.Messages {
		for _, p := range m.Parts {
			if _, answered := of[p.ToolCallID]; answered && strings.HasPrefix(p.State, "output-") {
				found[p.ToolCallID] = p
			}
		}
	}
	return found
}

// unanswered returns what the page is told of an error of the desk.
func unanswered(err error) error {
	if _, of := errors.AsType[*orchestrator.Error](err); of || err == nil { // the bot may have such an error, too
		return err
	}
	if errors.Is(err, approval.ErrInvalid) && !isRefusal(err) || errors.Is(err, inbox.ErrInvalid) {
		return bad("The answer cannot be kept.")
	}
	for _, as := range []struct{ is, told error }{
		{approval.ErrNotAsked, httpjson.ErrNotFound},
		{approval.ErrAnswered, errAnswered},
		{approval.ErrChanged, errChanged},
		{approval.ErrExpired, errExpired},
		{approval.ErrDenied, httpjson.ErrForbidden},
	} {
		if errors.Is(err, as.is) {
			return as.told
		}
	}
	return err
}
