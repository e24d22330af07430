package turnhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// mostEffects is how many effects of a session are shown: the newest.
const mostEffects = 1000

type effectDoc struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Key      string     `json:"key,omitempty"`
	Class    string     `json:"class"`
	State    string     `json:"state"`
	Attempt  int        `json:"attempt"`
	Run      string     `json:"run"`
	Intent   string     `json:"intent,omitempty"`
	Issued   time.Time  `json:"issued"`
	Finished *time.Time `json:"finished,omitempty"`
	By       string     `json:"by,omitempty"`
	Outcome  string     `json:"outcome,omitempty"`
}

// The outcomes that a person can answer.
const (
	landed    = "landed"
	notLanded = "not-landed"
	skip      = "skip"
)

// outcomes maps an answer to the outcome of the effect.
var outcomes = map[ledger.State]string{ledger.Completed: landed, ledger.Failed: notLanded, ledger.Skipped: skip}

func effectOf(e ledger.Effect) effectDoc {
	doc := effectDoc{
		ID: e.ID, Name: e.Name, Key: e.Key, Class: e.Class.String(), State: string(e.State), Attempt: e.Attempts,
		Run: e.RunID, Intent: e.Intent, Issued: e.IssuedAt.UTC(), By: e.AnsweredBy,
	}
	if !e.FinishedAt.IsZero() {
		at := e.FinishedAt.UTC()
		doc.Finished = &at
	}
	if e.AnsweredBy != "" {
		doc.Outcome = outcomes[e.State]
	}
	return doc
}

func (s *server[S]) getEffects(w http.ResponseWriter, r *http.Request, to target) error {
	docs := []effectDoc{}
	if s.Ledger != nil {
		for e, err := range s.Ledger.Effects(r.Context(), s.effects(to.session, "")) {
			if _, one := errors.AsType[*ledger.DamagedError](err); err != nil && !one {
				return &foreign.StoreError{Err: err}
			}
			if len(docs) == 2*mostEffects {
				docs = append(docs[:0], docs[mostEffects:]...)
			}
			docs = append(docs, effectOf(e))
		}
	}
	return reply(w, map[string]any{"effects": docs[max(0, len(docs)-mostEffects):]})
}

// effects selects the effects of a session, or one of them.
func (s *server[S]) effects(session, id string) ledger.Query {
	return ledger.Query{Orchestrator: s.bot.Name(), Session: session, ID: id, Brief: true}
}

// effect returns an effect of a session.
func (s *server[S]) effect(ctx context.Context, session, id string) (ledger.Effect, error) {
	if s.Ledger == nil {
		return ledger.Effect{}, errNotFound
	}
	e, err := ledger.Load(ctx, s.Ledger, s.effects(session, id))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return e, errNotFound
	case err != nil:
		return e, &foreign.StoreError{Err: err}
	}
	return e, nil
}

func (s *server[S]) postEffect(w http.ResponseWriter, r *http.Request, to target) error {
	all, err := httpjson.Body(w, r, "outcome", "value")
	if err != nil {
		return err
	}
	outcome, err := httpjson.Text(all, "outcome")
	if err != nil {
		return err
	}
	a := ledger.Answer{Landed: outcome == landed, Skip: outcome == skip, Result: all["value"], By: string(to.actor)}
	switch {
	case !a.Landed && !a.Skip && outcome != notLanded:
		return errBadRequest.Because("The member outcome is landed, not-landed or skip.")
	case !a.Landed && a.Result != nil:
		return errBadRequest.Because("Only an effect that landed has a value.")
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	if _, err := s.effect(ctx, to.session, to.id); err != nil {
		return err
	}
	err = ledger.Resolve(ctx, s.Ledger, to.id, a)
	if errors.Is(err, ledger.ErrAnswered) && s.answeredSo(ctx, to, a, outcome) {
		err = nil // the reply to the first request was lost
	}
	if err != nil {
		return unresolved(err)
	}
	return reply(w, map[string]bool{"answered": true})
}

// answeredSo reports whether this client has answered so before, with the same value.
func (s *server[S]) answeredSo(ctx context.Context, to target, a ledger.Answer, outcome string) bool {
	q := s.effects(to.session, to.id)
	q.Brief = false // a brief effect has no Result
	e, err := ledger.Load(ctx, s.Ledger, q)
	return err == nil && e.AnsweredBy == a.By && outcomes[e.State] == outcome && sameValue(e.Result, a.Result)
}

// sameValue reports whether two documents hold the same JSON value. No document is null.
func sameValue(a, b json.RawMessage) bool {
	left, err := jsonvalue.Canonical(a)
	if err != nil {
		return false
	}
	right, err := jsonvalue.Canonical(b)
	return err == nil && bytes.Equal(left, right)
}

// unresolved returns what the client is told of an error of ledger.Resolve.
func unresolved(err error) error {
	switch {
	case errors.Is(err, ledger.ErrAnswered):
		return errAnswered
	case errors.Is(err, ledger.ErrNotFound):
		return errNotFound
	case errors.Is(err, lock.ErrHeld):
		return errHeld
	case errors.Is(err, ledger.ErrInvalid):
		return errBadRequest.Because("The value cannot be kept.")
	}
	return &foreign.StoreError{Err: err}
}
