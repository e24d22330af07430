package turnhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Desk returns the desk of the handler with these options; nil without Questions. Its Run belongs beside the watch of
// package bootdrain. OnError is told of what no request has met with a nil request.
func (o Options[S]) Desk(bot *orchestrator.Orchestrator[S]) *approval.Desk[S] {
	if o.Questions == nil {
		return nil
	}
	o = o.orDefaults()
	return &approval.Desk[S]{
		Bot: bot, Questions: o.Questions, Answer: o.Answer, Inbox: o.Inbox, Timeout: o.TurnTimeout,
		OnError: func(ctx context.Context, err error) {
			r, _ := ctx.Value(requestKey{}).(*http.Request)
			o.OnError(r, err)
		},
	}
}

// requestKey is the key of the request in the context of a call of the desk.
type requestKey struct{}

func (s *server[S]) getQuestions(w http.ResponseWriter, r *http.Request, to target) error {
	docs := []front.Question{}
	if s.desk == nil {
		return reply(w, map[string]any{"questions": docs})
	}
	var all []approval.Asked
	var err error
	if id := r.URL.Query().Get("id"); id == "" {
		all, err = s.desk.Asked(r.Context(), to.session)
	} else if q, failed := s.desk.Question(r.Context(), to.session, id); failed == nil {
		all = append(all, *q)
	} else if !errors.Is(failed, approval.ErrNotAsked) {
		err = failed
	}
	if err != nil {
		return err
	}
	for _, q := range all {
		if !to.client || q.Client {
			docs = append(docs, documentOf(q, to))
		}
	}
	return reply(w, map[string]any{"questions": docs})
}

// documentOf returns the document of a question. A client that may not see all questions does not see who has answered.
func documentOf(q approval.Asked, to target) front.Question {
	doc := front.Question{ID: q.ID, Shown: q.JSON, Sum: q.Sum, Answered: q.Answered}
	if !q.Expires.IsZero() {
		at := q.Expires.UTC()
		doc.Expires = &at
	}
	if q.Answered && !to.client {
		doc.By = q.By
	}
	return doc
}

func (s *server[S]) postAnswer(w http.ResponseWriter, r *http.Request, to target) error {
	if s.desk == nil {
		return errNotFound
	}
	all, err := httpjson.Body(w, r, "answer", "sum")
	if err != nil {
		return err
	}
	sum, err := httpjson.Text(all, "sum")
	if err != nil {
		return err
	}
	given := approval.Answer{Data: all["answer"], Sum: sum, By: string(to.actor), Client: to.client}
	switch {
	case given.Data == nil:
		return errBadRequest.Because("The member answer is missing.")
	case sum == "":
		return errBadRequest.Because("The member sum is missing: it comes with the question.")
	}
	c, err := s.post(r, to.session, to.id, given)
	if err != nil {
		return err
	}
	return s.run(w, r, c)
}

// post leaves an answer in the inbox, and returns the turn that takes it.
func (s *server[S]) post(r *http.Request, session, id string, given approval.Answer) (c call[S], err error) {
	ctx, cancel := s.finish(r)
	defer cancel()
	p, err := s.desk.Post(ctx, session, id, given)
	if err != nil {
		return c, unanswered(err)
	}
	end := func(res *orchestrator.Result[S], err error) (*orchestrator.Result[S], error) {
		ctx := context.WithValue(context.WithoutCancel(r.Context()), requestKey{}, r)
		return res, unanswered(p.Done(ctx, res, err))
	}
	return call[S]{session: session, input: p.Input, end: end}, nil
}

// unanswered returns what the client is told of an error of the desk.
func unanswered(err error) error {
	_, of := errors.AsType[*orchestrator.Error](err)
	switch {
	case of: // the bot may have such an error, too
		return err
	case errors.Is(err, approval.ErrInvalid) && errors.Is(err, inbox.ErrInvalid):
		return errBadRequest.Because("The answer cannot be kept.")
	case errors.Is(err, approval.ErrInvalid):
		return unreadBody(err)
	}
	for _, as := range []struct{ is, told error }{
		{approval.ErrNotAsked, errNotFound},
		{approval.ErrAnswered, errAnswered},
		{approval.ErrChanged, errChanged},
		{approval.ErrExpired, errExpired},
		{approval.ErrDenied, errForbidden},
	} {
		if errors.Is(err, as.is) {
			return as.told
		}
	}
	return err
}
