package turnhttp

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Chat is a bot that keeps what was said in its sessions. Its methods may be called concurrently.
type Chat interface {
	// Messages returns up to limit messages of the settled turns, the oldest first: the newest ones of those before a
	// number. Messages are numbered from 0. first is the number of the first that it returns. A session that does not
	// exist has no messages.
	Messages(ctx context.Context, session string, before, limit int) (all []message.Message, first int, err error)

	// Stop asks a run to stop, and returns at once.
	Stop(ctx context.Context, session, run, reason string) error

	// Branch begins session to with what session from knew after a turn; the turn checkpoint.Newest is the newest one.
	// A repeat does nothing. If to exists already, the error is checkpoint.ErrConflict. If from has no such turn, or
	// keeps it no longer, the error is checkpoint.ErrNotFound. So a bot whose sessions are all in its states may call
	// Orchestrator.Fork.
	Branch(ctx context.Context, from string, turn int, to string) error

	// Delete removes a session with all that it has: its turns, and what was said. A repeat finishes what a failure has
	// left.
	Delete(ctx context.Context, session string) error
}

// An Editor is a Chat in which users say anew what they have said: they edit a message, or ask for another reply. The
// chat of an agent is one. Its methods may be called concurrently.
type Editor interface {
	Chat

	// Said returns what a user has said under an id, and the number of the turn that has heard it. The id is the
	// request id of the first input that said it. If the conversation has no such message, or has it no longer, the
	// error is checkpoint.ErrNotFound.
	Said(ctx context.Context, session, id string) (text string, turn int, err error)

	// Anew returns in as an input that replaces what was said: its turn forgets the message and all behind it, and
	// then hears in. Of several at once the last one stays. If e names a run whose reply was replaced already, the
	// turn refuses the input. Data of the input has e as its member "anew".
	Anew(in orchestrator.Input, e Edit) (orchestrator.Input, error)
}

// An Edit says what an input replaces: the message ID, or with a Run the reply of that run to it.
type Edit struct {
	ID  string `json:"id"`
	Run string `json:"run,omitempty"`
}

// A Part is what a page shows of a message: words, a call of a tool, or the result of a call. A bot that shows a call
// while its turn runs gives such a Part to Turn.Show, and another one with the result. An agent does so for its tools.
// Packages uichat and agui show both as calls of their protocol: see Show.Part.
//
// Whoever may follow the session sees the parts, and the stream store keeps them. So a part must hold no secret.
type Part struct {
	Type   string          `json:"type"`           // PartText, PartCall, PartResult or PartReasoning
	ID     string          `json:"id,omitempty"`   // of the call
	Name   string          `json:"name,omitempty"` // of the tool
	Args   json.RawMessage `json:"args,omitempty"`
	Text   string          `json:"text,omitempty"` // the words, or the result
	Failed bool            `json:"failed,omitempty"`
}

// The types of parts.
const (
	PartText   = "text"
	PartCall   = "tool_call"
	PartResult = "tool_result"

	PartReasoning = "reasoning" // what a model has thought; PartsOf returns none
)

// mostShown is how many bytes of arguments, or of a result, a part shows.
const mostShown = 16 << 10

// PartsOf returns what is shown of a message: no reasoning, and no kinds of blocks that are not known. Arguments above
// 16 KiB are shown as {"bytes": …}, and a result above 16 KiB is cut, and says so.
func PartsOf(m message.Message) (parts []Part) {
	for _, b := range m.Blocks {
		if c, ok := b.Call(); ok {
			p := Part{Type: PartCall, ID: c.ID, Name: c.Name, Args: c.Args}
			if len(c.Args) > mostShown {
				p.Args, _ = json.Marshal(map[string]int{"bytes": len(c.Args)})
			}
			parts = append(parts, p)
		} else if r, ok := b.Result(); ok {
			p := Part{Type: PartResult, ID: r.CallID, Text: b.Text, Failed: r.IsError}
			if len(b.Text) > mostShown {
				p.Text = strings.ToValidUTF8(b.Text[:mostShown], "") + " [cut: there was more]"
			}
			parts = append(parts, p)
		} else if b.Kind == message.KindText {
			parts = append(parts, Part{Type: PartText, Text: b.Text})
		}
	}
	return parts
}

// How many messages a page of a conversation has.
const (
	messagesPage = 50
	messagesMost = 200
)

// A messagesDoc is what was said in a session.
type messagesDoc struct {
	Session string `json:"session"`
	Turn    int    `json:"turn"` // the newest settled one

	// Run is the turn in flight.
	Run *talkingDoc `json:"run,omitempty"`

	Messages []messageDoc `json:"messages"`
	More     bool         `json:"more"`

	// Reply is that of the newest settled turn.
	Reply any `json:"reply,omitempty"`
}

type talkingDoc struct {
	ID      string `json:"id"`
	Request string `json:"request,omitempty"`
	Status  string `json:"status"`
}

type messageDoc struct {
	Number int        `json:"number"`
	Role   string     `json:"role"`
	Turn   int        `json:"turn"`
	At     *time.Time `json:"at,omitempty"`
	Parts  []Part     `json:"parts"`
}

func (s *server[S]) getMessages(w http.ResponseWriter, r *http.Request, to target) error {
	if s.Chat == nil {
		return errNotFound
	}
	before, err := number(r, "before", math.MaxInt)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", messagesPage)
	if err != nil {
		return err
	}
	// It is read first, so that the messages are no older than what it says.
	st, err := s.bot.Inspect(r.Context(), to.session)
	if _, drift := errors.AsType[*orchestrator.DriftError](err); err != nil && !drift {
		return err
	}
	doc := messagesDoc{Session: to.session, Turn: st.Turn, Messages: []messageDoc{}}
	if run := st.Run; run != nil {
		doc.Run = &talkingDoc{run.ID, run.RequestID, string(run.Status)}
	}
	if limit == 0 {
		return reply(w, doc)
	}
	if doc.Reply, err = s.replyOf(r.Context(), to.session, st.Turn); err != nil {
		return err
	}
	first := 0
	all, err := ask("Options.Chat", func() (all []message.Message, err error) {
		all, first, err = s.Chat.Messages(r.Context(), to.session, before, min(limit, messagesMost))
		return all, err
	})
	if err != nil {
		return err
	}
	for i, m := range all {
		doc.Messages = append(doc.Messages, messageOf(first+i, m))
	}
	doc.More = first > 0
	return reply(w, doc)
}

// replyOf returns what is shown of a settled turn: nil if it is gone, or cannot be read.
func (s *server[S]) replyOf(ctx context.Context, session string, turn int) (any, error) {
	if turn < 0 {
		return nil, nil
	}
	res, err := s.bot.Turn(ctx, session, turn)
	_, one := foreign.OneTurn(err)
	switch {
	case one, errors.Is(err, checkpoint.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return ask("Options.Reply", func() (any, error) { return s.Reply(res), nil })
}

func messageOf(number int, m message.Message) messageDoc {
	doc := messageDoc{Number: number, Role: m.Role, Turn: m.Turn, Parts: PartsOf(m)}
	if doc.Parts == nil {
		doc.Parts = []Part{}
	}
	if !m.CreatedAt.IsZero() {
		at := m.CreatedAt.UTC()
		doc.At = &at
	}
	return doc
}

func (s *server[S]) postStop(w http.ResponseWriter, r *http.Request, to target) error {
	if s.Chat == nil {
		return errNotFound
	}
	run, err := runOf(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	st, err := s.bot.Inspect(ctx, to.session)
	if _, drift := errors.AsType[*orchestrator.DriftError](err); err != nil && !drift {
		return err
	}
	inFlight := st.Run != nil && st.Run.ID == run
	if inFlight {
		_, err := ask("Options.Chat", func() (struct{}, error) {
			return struct{}{}, s.Chat.Stop(ctx, to.session, run, "stopped by "+string(to.actor))
		})
		if err != nil {
			return err
		}
	}
	return reply(w, map[string]bool{"stopping": inFlight})
}

// runOf reads the body {"run": …}.
func runOf(w http.ResponseWriter, r *http.Request) (run string, err error) {
	all, err := httpjson.Body(w, r, "run")
	if err != nil {
		return "", err
	}
	run, err = httpjson.Text(all, "run")
	if err == nil && run == "" {
		err = errBadRequest.Because("The member run is missing.")
	}
	return run, err
}
