package agui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net/http"
	"path"
	"slices"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Options say what clients of AG-UI see beside what turnhttp.Options say. The zero value, and nil, mean the defaults.
type Options[S any] struct {
	// Body returns what Input reads, for a bot that takes more than text: a value of JSON. nil means {"message": …}.
	// Then a message of the user with a part that is no text is refused.
	Body func(RunInput) any

	// State returns what a client sees of a settled turn as the state of its page. nil means that pages have no state.
	State func(*orchestrator.Result[S]) any

	// Tools are the intents that a client sees as tool calls, without input and result. Part returns what it sees of a
	// part that the bot has shown. See turnhttp.Show.
	Tools []string
	Part  func(turnhttp.Part) turnhttp.Part

	// Cancelled says that clients take the outcome cancelled, for a turn that was abandoned. @ag-ui/client does so from
	// 1.0 on, and 0.0.59 throws. Without it such a run ends with RUN_ERROR.
	Cancelled bool
}

// Handler serves a bot to clients of AG-UI, such as HttpAgent:
//
//	h := agui.Handler(bot, turnhttp.Options[State]{Authorize: …, Reply: …}, nil)
//	mux.Handle("/agent", h)
//	mux.Handle("/agent/connect", h)
//
// POST runs what the client says in the thread, which is the session, and answers as [Write] does. If the last segment
// of the path is connect, POST shows the thread as it is, and goes on with the turn in flight. See the package comment.
//
// The options are those of turnhttp.Handler, which panics as this does. Those of an agent are Agent.Options. Input
// reads a JSON object with the member message, unless Options.Body says otherwise. Reply is the result of a run: a
// string is the text that the bot has said, and so is the member text of an object. MaxBody 0 means 8 MiB: a client
// sends the whole conversation. OptionalKey and Security have no meaning here.
func Handler[S any](bot *orchestrator.Orchestrator[S], o turnhttp.Options[S], ui *Options[S]) http.Handler {
	o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	s := &server[S]{Options: o, bot: bot, rules: turnhttp.RulesOf(bot, o), reply: tell.ReplyOf(o)}
	if ui != nil {
		s.ui = *ui
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := s.run
		if path.Base(r.URL.Path) == "connect" {
			serve = s.connect
		}
		s.rules.Serve(w, r, http.MethodPost, serve)
	})
}

type server[S any] struct {
	turnhttp.Options[S]
	ui    Options[S]
	bot   *orchestrator.Orchestrator[S]
	rules *turnhttp.Rules[S]
	reply func(*orchestrator.Result[S]) turnhttp.Reply
}

// read reads a request.
func (s *server[S]) read(w http.ResponseWriter, r *http.Request) (in RunInput, err error) {
	if in, err = readInput(r); err != nil {
		return in, err
	}
	httpjson.Arrived(w)
	if in.RunID == "" {
		return in, httpjson.ErrBadRequest.Because("The member runId is missing.")
	}
	return in, nil
}

func (s *server[S]) run(w http.ResponseWriter, r *http.Request) error {
	in, err := s.read(w, r)
	if err != nil {
		return err
	}
	calls, err := s.answers(r, in)
	if err == nil && calls == nil {
		calls, err = s.say(r, in)
	}
	if len(calls) == 0 {
		if err == nil {
			err = httpjson.ErrBadRequest.Because("The messages have none of the user, and nothing is answered.")
		}
		return err
	}
	return s.show(w, r, in, nil, func(reply func(*orchestrator.Result[S]) turnhttp.Reply) turnhttp.Show {
		show := s.rules.Show(in.ThreadID, reply, calls...)
		if err == nil {
			return show
		}
		// Some answers were taken, and the next one was not. The client is told once the others have run.
		ended := show.Outcome
		show.Outcome = func(ctx context.Context, last orchestrator.Event) (turnhttp.Reply, error) {
			if said, err := ended(ctx, last); err != nil {
				return said, err
			}
			return turnhttp.Reply{}, err
		}
		return show
	})
}

// say returns the turn of the newest message of the user. Its id is the request id: a client that runs again without a
// new message, after a reload too, gets the turn that there is.
func (s *server[S]) say(r *http.Request, in RunInput) ([]turnhttp.Call[S], error) {
	who, err := s.rules.Authorize(r, in.ThreadID, turnhttp.ActionTurn)
	if err != nil {
		return nil, err
	}
	i := in.said()
	if i < 0 {
		return nil, nil
	}
	m := in.Messages[i]
	if m.ID == "" {
		return nil, httpjson.ErrBadRequest.Because("The message of the user has no id.")
	}
	text, plain := m.Text()
	var body any = map[string]string{"message": text}
	if s.ui.Body != nil {
		body = s.ui.Body(in)
	} else if !plain {
		return nil, httpjson.ErrBadRequest.Because("The message of the user has a part that is no text.")
	}
	doc, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	said, err := s.rules.Input(r, bytes.NewReader(doc), m.ID)
	if err != nil {
		return nil, err
	}
	c, err := s.rules.Say(r, in.ThreadID, said, who)
	if err != nil {
		return nil, err
	}
	return []turnhttp.Call[S]{c}, nil
}

// answers takes the answers of a request: those to interrupts, and the results of tools that the client's side has run.
// It returns the turns that take them. If it returns an error too, the answers before it were taken.
func (s *server[S]) answers(r *http.Request, in RunInput) (calls []turnhttp.Call[S], err error) {
	for _, answer := range in.Resume {
		if answer.Status == "cancelled" { // the question stays as it is
			continue
		}
		id, sum := questionOf(answer.InterruptID)
		if answer.Status != "resolved" || sum == "" {
			return calls, httpjson.ErrBadRequest.Because("An entry of resume has the interruptId of a question, " +
				"and the status resolved or cancelled. Effects are answered at POST effects/{id}.")
		}
		payload := answer.Payload
		if payload == nil {
			payload = json.RawMessage("null")
		}
		c, err := s.rules.Answer(r, in.ThreadID, id, approval.Answer{Data: payload, Sum: sum})
		if err != nil {
			return calls, err
		}
		calls = append(calls, c)
	}
	if calls != nil || s.Questions == nil {
		return calls, nil
	}
	return s.results(r, in)
}

// results takes the results of client tools behind the newest message of the user. Those that were taken before are
// left out, unless there is nothing else: then the request is a repeat.
func (s *server[S]) results(r *http.Request, in RunInput) (calls []turnhttp.Call[S], err error) {
	type result struct {
		Message
		sum string
	}
	var open []result
	var before *result
	for _, m := range in.Messages[in.said()+1:] {
		if m.Role != "tool" || m.ToolCallID == "" {
			continue
		}
		if open == nil && before == nil { // nobody learns of questions who may not answer one
			if may, err := s.mayAnswer(r, in.ThreadID); err != nil || may == nothing {
				return nil, err
			}
		}
		q, err := s.rules.Asked(r, in.ThreadID, m.ToolCallID)
		switch {
		case turnhttp.Status(err) == http.StatusNotFound: // the bot has run that tool
		case err != nil:
			return nil, err
		case !q.Client:
		case q.Answered:
			before = &result{m, q.Sum}
		default:
			open = append(open, result{m, q.Sum})
		}
	}
	if open == nil && before != nil {
		open = append(open, *before)
	}
	for _, m := range open {
		text, _ := m.Text()
		doc, err := json.Marshal(struct {
			Result string `json:"result"`
			Failed bool   `json:"failed,omitempty"`
		}{cmp.Or(text, m.Error), m.Error != ""})
		if err != nil {
			return calls, err
		}
		c, err := s.rules.Answer(r, in.ThreadID, m.ToolCallID, approval.Answer{Data: doc, Sum: m.sum})
		if err != nil {
			return calls, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// What a client may answer.
type may int

const (
	nothing may = iota
	clientTools
	everything
)

// mayAnswer returns what a client may see of the questions and answer.
func (s *server[S]) mayAnswer(r *http.Request, session string) (may, error) {
	if s.Questions == nil {
		return nothing, nil
	}
	sees, err := s.rules.May(r, session, turnhttp.ActionRead)
	if err == nil && sees {
		sees, err = s.rules.May(r, session, turnhttp.ActionAnswer)
	}
	if err != nil || sees {
		return everything, err
	}
	if sees, err = s.rules.May(r, session, turnhttp.ActionClient); err != nil || sees {
		return clientTools, err
	}
	return nothing, nil
}

func (s *server[S]) connect(w http.ResponseWriter, r *http.Request) error {
	in, err := s.read(w, r)
	if err != nil {
		return err
	}
	if _, err := s.rules.Authorize(r, in.ThreadID, turnhttp.ActionFollow); err != nil {
		return err
	}
	var history []any
	if s.Chat != nil {
		if history, err = s.history(r.Context(), in.ThreadID); err != nil {
			return err
		}
	}
	return s.show(w, r, in, history, func(reply func(*orchestrator.Result[S]) turnhttp.Reply) turnhttp.Show {
		show := s.rules.Newest(in.ThreadID, reply)
		ended := show.Outcome
		show.Outcome = func(ctx context.Context, last orchestrator.Event) (turnhttp.Reply, error) {
			said, err := ended(ctx, last)
			if errors.Is(err, orchestrator.ErrNothingToResume) {
				return turnhttp.Reply{}, nil // a thread in which nothing was said
			}
			if history != nil && last.Kind == "" {
				said.Text = "" // the history has it
			}
			return said, err
		}
		return show
	})
}

// show writes a Show for a client.
func (s *server[S]) show(
	w http.ResponseWriter, r *http.Request, in RunInput, history []any,
	of func(reply func(*orchestrator.Result[S]) turnhttp.Reply) turnhttp.Show,
) error {
	sees, err := s.mayAnswer(r, in.ThreadID)
	if err != nil {
		return err
	}
	c := &client{input: in, cancelled: s.ui.Cancelled, history: history}
	if s.ui.State != nil {
		res, err := s.bot.Turn(r.Context(), in.ThreadID, checkpoint.Newest)
		if err == nil {
			c.state, err = stateOf(s.ui.State, res)
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return err
		}
	}
	show := of(func(res *orchestrator.Result[S]) turnhttp.Reply { return s.replyTo(c, sees, res) })
	events := show.Events
	show.Tools, show.Part = s.ui.Tools, s.ui.Part
	show.Events = func(ctx context.Context) iter.Seq2[orchestrator.Shown, error] {
		return func(yield func(orchestrator.Shown, error) bool) {
			defer func() { c.at = cursor{number: afterEvents} }()
			for ev, err := range events(ctx) {
				if c.at = (cursor{number: ev.Number}); !yield(ev, err) {
					return
				}
			}
		}
	}
	err = tell.Run(w, r, show, "", func(out *front.Sender) tell.Protocol {
		return &protocol{out: out, session: in.ThreadID, client: c}
	})
	if err != nil && r.Context().Err() == nil {
		s.rules.Told(r, err)
	}
	return nil
}

// replyTo returns what a client gets of a settled turn.
func (s *server[S]) replyTo(c *client, sees may, res *orchestrator.Result[S]) turnhttp.Reply {
	said := s.reply(res)
	said.Questions = slices.DeleteFunc(said.Questions, func(q approval.Question) bool {
		return sees == nothing || sees == clientTools && !q.Client
	})
	if s.ui.State != nil {
		c.after, _ = stateOf(s.ui.State, res) // what cannot be JSON is not shown
	}
	return said
}

func stateOf[S any](of func(*orchestrator.Result[S]) any, res *orchestrator.Result[S]) (json.RawMessage, error) {
	return json.Marshal(of(res))
}

// historyMost is how many messages a client that connects gets of what was said before.
const historyMost = 200

// history returns what was said in the settled turns.
func (s *server[S]) history(ctx context.Context, session string) ([]any, error) {
	all, first, err := s.Chat.Messages(ctx, session, math.MaxInt, historyMost)
	if err != nil {
		return nil, err
	}
	said := []any{}
	for i, m := range all {
		said = append(said, told(first+i, m)...)
	}
	return said, nil
}
