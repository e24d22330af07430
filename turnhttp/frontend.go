package turnhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// A Show is one turn, as a front end gets it: first its events, and then how it ended. [UIMessages] and [AGUI] write
// it, each in its protocol. [ShowTurn] and [ShowNewest] return one.
type Show struct {
	// Session is the id of the conversation.
	Session string

	// Run is the run id of a client of AG-UI. "" means that of the turn.
	Run string

	// Tools are the intents that a front end sees as tool calls. Their input and their result are not shown, because
	// events do not hold them.
	Tools []string

	// Events yields the events of the turn, until ctx ends.
	Events func(ctx context.Context) iter.Seq2[orchestrator.Shown, error]

	// Outcome is called after the last event, which is zero if there was none. It waits for the outcome. If the error
	// is orchestrator.ErrNothingToResume, and there was no event, the front end gets 204.
	Outcome func(ctx context.Context, last orchestrator.Event) (Reply, error)
}

// A Reply holds the part of a settled turn that a front end gets.
type Reply struct {
	// Text is the whole reply. If the newest texts that were shown say something else, Text follows them. "" means that
	// nothing follows.
	Text string

	// Data is shown beside the text, as JSON. nil means none.
	Data any

	// Questions wait for a person.
	Questions []Question

	// Usage is the cost of the turn. ShowTurn and ShowNewest set it if it is zero.
	Usage orchestrator.Usage

	run       string
	data      json.RawMessage
	questions []questionDoc
}

// ShowTurn shows a turn of this process: one that the caller has begun with Stream. reply says what of the settled turn
// leaves the process.
func ShowTurn[S any](
	session string, turn *orchestrator.Stream[S], reply func(*orchestrator.Result[S]) Reply,
) Show {
	return Show{
		Session: session,
		Events: func(context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				for ev := range turn.Events() {
					if !yield(orchestrator.Shown{Event: ev}, nil) {
						return
					}
				}
			}
		},
		Outcome: func(context.Context, orchestrator.Event) (Reply, error) {
			res, err := turn.Result()
			if err != nil {
				return Reply{}, err
			}
			return replyOf(res, reply), nil
		},
	}
}

// ShowNewest shows the turn of session that is at work, in whichever process, from its first event on. It is for a page
// that was loaded again. If no turn is in flight, the front end gets 204. The bot needs an Options.Stream.
func ShowNewest[S any](
	bot *orchestrator.Orchestrator[S], session string, reply func(*orchestrator.Result[S]) Reply,
) Show {
	return Show{
		Session: session,
		Events: func(ctx context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				if _, more, err := bot.LastShown(ctx, session); err != nil {
					yield(orchestrator.Shown{}, err)
				} else if more {
					bot.Follow(ctx, session, stream.Newest)(yield)
				}
			}
		},
		Outcome: func(ctx context.Context, last orchestrator.Event) (Reply, error) {
			if last.Kind == "" {
				return Reply{}, &orchestrator.Error{
					Op: "follow", Session: session, Err: orchestrator.ErrNothingToResume,
				}
			}
			res, err := outcomeOf(ctx, bot, session, &last)
			if err != nil {
				return Reply{}, err
			}
			return replyOf(res, reply), nil
		},
	}
}

func replyOf[S any](res *orchestrator.Result[S], reply func(*orchestrator.Result[S]) Reply) Reply {
	said := reply(res)
	said.run = res.RunID
	if said.Usage == (orchestrator.Usage{}) {
		said.Usage = res.Usage
	}
	return said
}

// A protocol is the protocol of a front end. Its methods send what they are called with.
type protocol interface {
	// begin begins the answer. Nothing but fail may come before it.
	begin(run string)

	// iteration begins an iteration. What was begun in another has ended.
	iteration()

	// intent begins an intent, and ended ends it. fault says why it has brought nothing; "" means that it has.
	intent(*doing)
	ended(d *doing, fault string)

	// text begins a text, say goes on with it, and close ends it. If the text is void, it is not to be shown any more.
	text(*words)
	say(w *words, delta string)
	close(w *words, void bool)

	// retract makes a text void that has ended.
	retract(*words)

	// One of these ends the answer.
	finish(Reply)
	suspend(problem)
	stop()
	fail(problem)
}

// tell sends a Show. It returns the error that the front end was told of.
func tell(w http.ResponseWriter, r *http.Request, s Show, to func(*sender) protocol) error {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	out := newSender(w, gone)
	defer out.close()
	p := to(out)
	t := &teller{to: p, run: s.Run, tools: s.Tools}
	reply, err := caught("Show", func() (Reply, error) {
		reply, err := t.all(ctx, s)
		if err == nil && ctx.Err() == nil {
			err = reply.encode(s.Session)
		}
		return reply, err
	})
	abort(err)
	logPanic(ctx, err)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	told := logtext.Shield(err)
	switch doc := problemOf(told); {
	case err == nil:
		t.begin(cmp.Or(reply.run, s.Session))
		t.conclude(reply)
	case out.settle():
		if !t.begun && errors.Is(told, orchestrator.ErrNothingToResume) {
			return empty(w)
		}
		w.Header().Del(uiHeader)
		Problem(w, r, err)
	case doc.Status == http.StatusAccepted:
		t.begin(doc.Run)
		t.endAll(isUnknown)
		p.suspend(doc)
	case errors.Is(told, orchestrator.ErrAbandoned):
		t.begin(doc.Run)
		t.endAll(didNotEnd)
		p.stop()
	default:
		t.endAll(didNotEnd)
		p.fail(doc)
	}
	return err
}

// all sends the events, and returns the outcome.
func (t *teller) all(ctx context.Context, s Show) (Reply, error) {
	var last orchestrator.Event
	for shown, err := range s.Events(ctx) {
		if err != nil {
			return Reply{}, err
		}
		if ctx.Err() != nil {
			return Reply{}, context.Cause(ctx)
		}
		last = shown.Event
		t.event(last)
	}
	return s.Outcome(ctx, last)
}

// data sends one document of a protocol that has no names of events.
func (e *sender) data(doc any) {
	e.send("data: " + string(httpjson.Marshal(doc)) + "\n")
}

// A mark is metadata that this package adds to a text.
type mark struct {
	Intent    string `json:"intent,omitempty"`
	Item      int    `json:"item,omitempty"`
	Iteration int    `json:"iteration"`
	Attempt   int    `json:"attempt,omitempty"`

	// Void says that the text is not part of the reply: a later attempt says it anew.
	Void bool `json:"void,omitempty"`
}

// marked is a mark under the name of this module.
type marked struct {
	Holdfast mark `json:"holdfast"`
}

// encode turns what the reply holds of the bot into JSON. The questions are those of a session.
func (r *Reply) encode(session string) (err error) {
	if r.Data != nil {
		if r.data, err = json.Marshal(r.Data); err != nil {
			return err
		}
		if string(r.data) == "null" { // AG-UI has no such result
			r.data = nil
		}
	}
	for _, q := range r.Questions {
		doc := questionDoc{ID: q.ID}
		if doc.Shown, doc.Sum, err = q.encode(session); err != nil {
			return err
		}
		if !q.Expires.IsZero() {
			at := q.Expires.UTC()
			doc.Expires = &at
		}
		r.questions = append(r.questions, doc)
	}
	return nil
}
