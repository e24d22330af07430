package uichat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// prefix begins the request ids of edits. No message of a page has one.
const prefix = "uichat/"

func isRefusal(err error) bool {
	_, input := errors.AsType[*orchestrator.InputError](err)
	_, refusal := errors.AsType[*httpjson.Refusal](err)
	return input || refusal
}

// postChat takes what the transport sends.
func (s *server[S]) postChat(w http.ResponseWriter, r *http.Request, _ target) error {
	q, m, parts, err := readRequest(w, r)
	if err != nil {
		return err
	}
	if m.Role == "assistant" {
		return s.postAnswers(w, r, q.ID, m, parts)
	}
	to, err := s.admit(r, q.ID, turnhttp.ActionTurn)
	if err != nil {
		return err
	}
	text, err := s.words(r, to.session, parts)
	if err != nil {
		return err
	}
	in, err := s.input(r, text)
	if err != nil {
		return err
	}
	in.RequestID = m.ID
	ctx, cancel := s.finish(r)
	defer cancel()
	settled := -1
	if q.Trigger == regenerate || q.MessageID != "" {
		if in, settled, err = s.anew(ctx, to.session, in, q, m.ID, text); err != nil {
			return err
		}
	}
	if settled >= 0 {
		s.write(w, r, s.settled(to.session, settled), newPage())
		return nil
	}
	in.Origin, in.By = orchestrator.FromUser, string(to.actor)
	if s.o.Arrived != nil {
		_, err := foreign.Ask("Options.Arrived", func() (none struct{}, err error) {
			return none, s.o.Arrived(r.Context(), to.session, in)
		})
		if err != nil {
			return err
		}
	}
	turn := s.bot.Stream(ctx, to.session, in, nil)
	show := turnhttp.ShowTurn(to.session, turn, s.reply)
	if s.editor == nil { // another text with the same id
		outcome := show.Outcome
		show.Outcome = func(ctx context.Context, last orchestrator.Event) (turnhttp.Reply, error) {
			reply, err := outcome(ctx, last)
			if errors.Is(err, orchestrator.ErrRequestReused) {
				err = errNoEdit
			}
			return reply, err
		}
	}
	s.write(w, r, show, newPage())
	_, _ = turn.Result() // the turn goes on without its client
	return nil
}

// anew makes in, which says text, an input that replaces what was said under an id. If it is a repeat, settled is the
// turn that has its reply; otherwise -1. A message that the session does not have is said as any other.
func (s *server[S]) anew(
	ctx context.Context, session string, in orchestrator.Input, q request, id, text string,
) (_ orchestrator.Input, settled int, err error) {
	if s.editor == nil {
		return in, -1, s.unsaid(ctx, session, in, q.Trigger)
	}
	e := turnhttp.Edit{ID: id}
	said, turn := "", 0
	_, err = foreign.Ask("Options.Chat", func() (none struct{}, err error) {
		said, turn, err = s.editor.Said(ctx, session, id)
		return none, err
	})
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		st, err := s.inspect(ctx, session)
		run := st.Run
		if err != nil || q.Trigger == regenerate || run == nil || run.RequestID != id || run.Input.Text == in.Text {
			return in, -1, err
		}
		turn = run.Turn // it waits for that one
	case err != nil:
		return in, -1, err
	case q.Trigger == submit && said == in.Text:
		return in, turn, nil
	case q.Trigger == regenerate && q.MessageID != id:
		e.Run = q.MessageID
	}
	which := any(turn)
	if e.Run != "" {
		which = e.Run
	}
	in.RequestID = requestID(q.Trigger, id, in.Text, which)
	in, err = s.editor.Anew(in, e)
	return in, -1, err
}

// unsaid refuses another reply of a bot that is no Editor. A message whose turn has failed may be sent again.
func (s *server[S]) unsaid(ctx context.Context, session string, in orchestrator.Input, trigger string) error {
	if trigger != regenerate {
		return nil // the turn tells
	}
	p, err := s.bot.Progress(ctx, session, in.RequestID)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return nil
	case err == nil && p.Status == orchestrator.InputSettled:
		return errNoEdit
	}
	return err
}

// requestID returns the request id of an edit: of what says what, in the place of which turn or run. So a repeat is the
// same input.
func requestID(trigger, id, text string, which any) string {
	doc, err := json.Marshal([]any{trigger, id, text, which})
	if err != nil {
		panic(err) // strings and a number have JSON
	}
	sum := sha256.Sum256(doc)
	return prefix + trigger + "/" + hex.EncodeToString(sum[:])
}

// settled shows a turn that has settled.
func (s *server[S]) settled(session string, turn int) turnhttp.Show {
	return turnhttp.Show{
		Session: session,
		Events: func(context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(func(orchestrator.Shown, error) bool) {}
		},
		Outcome: func(ctx context.Context, _ orchestrator.Event) (turnhttp.Reply, error) {
			res, err := s.bot.Turn(ctx, session, turn)
			if err != nil {
				return turnhttp.Reply{}, err
			}
			reply := s.reply(res)
			reply.Run, reply.Usage = cmp.Or(reply.Run, res.RunID), res.Usage
			return reply, nil
		},
	}
}
