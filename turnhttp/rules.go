package turnhttp

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// Rules are what Handler keeps to, for a handler that speaks the protocol of a front end, such as that of package agui:
// who may do what, whose input it is, the desk, pages of other origins, and problems.
type Rules[S any] struct{ s *server[S] }

// RulesOf returns the rules of a handler with these options. It panics as Handler does.
func RulesOf[S any](bot *orchestrator.Orchestrator[S], o Options[S]) *Rules[S] {
	return &Rules[S]{newServer(bot, o)}
}

// Serve answers a request by serve, which takes the method and has written nothing if it returns an error.
func (x *Rules[S]) Serve(
	w http.ResponseWriter, r *http.Request, method string, serve func(http.ResponseWriter, *http.Request) error,
) {
	s := x.s
	s.site.Admit(w.Header(), r)
	httpjson.LimitBody(w, r, s.MaxBody)
	var err error
	if r.Method != method {
		w.Header().Set("Allow", method)
		err = httpjson.ErrMethod
	}
	if s.site.Preflight(w, r, err) {
		return
	}
	if err == nil {
		err = serve(w, r)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// Authorize returns who acts, if the client may do this in a session.
func (x *Rules[S]) Authorize(r *http.Request, session string, action Action) (Actor, error) {
	to, err := x.s.admit(r, action, []string{session})
	return to.actor, err
}

// May reports whether the client may do this in a session.
func (x *Rules[S]) May(r *http.Request, session string, action Action) (bool, error) {
	_, err := x.Authorize(r, session, action)
	if errors.Is(err, errForbidden) {
		return false, nil
	}
	return err == nil, err
}

// Input returns what Options.Input reads of a body, with a request id.
func (x *Rules[S]) Input(r *http.Request, body io.Reader, request string) (orchestrator.Input, error) {
	with := r.Clone(r.Context())
	with.Body = io.NopCloser(body)
	in, err := x.s.input(with)
	if in.RequestID = request; err != nil {
		err = unreadBody(err)
	}
	return in, err
}

// Told says that a client was told of an error, other than by Serve. OnError is told of it if it is a status of 500 or
// more.
func (x *Rules[S]) Told(r *http.Request, err error) {
	if Status(err) >= http.StatusInternalServerError {
		x.s.report(r.Context(), r, err)
	}
}

// A Call is a turn that a client has asked for: a call of the bot that has not begun.
type Call[S any] struct {
	rules *Rules[S]
	r     *http.Request
	call  call[S]
}

// Say returns the turn of what a user says.
func (x *Rules[S]) Say(
	r *http.Request, session string, in orchestrator.Input, who Actor,
) (c Call[S], err error) {
	in, err = x.s.arrive(r, target{session: session, actor: who}, in)
	return Call[S]{x, r, call[S]{session: session, input: in, whole: true, end: unchanged[S]}}, err
}

// Asked returns a question of a session, also if it is no longer asked.
func (x *Rules[S]) Asked(r *http.Request, session, id string) (*approval.Asked, error) {
	if x.s.desk == nil {
		return nil, errNotFound
	}
	q, err := x.s.desk.Question(r.Context(), session, id)
	if err != nil {
		return nil, unanswered(err)
	}
	return q, nil
}

// Answer leaves the answer of a client in the inbox, and returns the turn that takes it. The client needs ActionAnswer,
// or ActionClient for a question with Question.Client.
func (x *Rules[S]) Answer(r *http.Request, session, id string, given approval.Answer) (c Call[S], err error) {
	who, err := x.Authorize(r, session, ActionAnswer)
	if errors.Is(err, errForbidden) {
		who, err = x.Authorize(r, session, ActionClient)
		given.Client = true
	}
	if err != nil {
		return c, err
	}
	if x.s.desk == nil {
		return c, errNotFound
	}
	given.By = string(who)
	c = Call[S]{rules: x, r: r}
	c.call, err = x.s.post(r, session, id, given)
	c.call.whole = true
	return c, err
}

// Show returns the turns of calls, one after the other, and the outcome of the last one, from the first event on, in
// whichever process they run. reply says what of the settled turn the front end gets. If a turn fails, the next ones do
// not run. A turn goes on without its client, as one of POST turns does, and the events end when it has.
func (x *Rules[S]) Show(session string, reply func(*orchestrator.Result[S]) Reply, calls ...Call[S]) Show {
	var res *orchestrator.Result[S]
	var err error
	return Show{
		Session: session,
		Events: func(reading context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				reading, stop := context.WithCancel(reading)
				defer stop()
				for _, c := range calls {
					if res, err = c.run(reading, func(ev orchestrator.Shown) {
						if reading.Err() == nil && !yield(ev, nil) {
							stop()
						}
					}); err != nil {
						return
					}
				}
			}
		},
		Outcome: func(context.Context, orchestrator.Event) (Reply, error) {
			if err != nil {
				return Reply{}, err
			}
			return asked(res, reply)
		},
	}
}

func (c Call[S]) run(
	reading context.Context, each func(orchestrator.Shown),
) (*orchestrator.Result[S], error) {
	ctx, cancel := c.rules.s.finish(c.r)
	defer cancel()
	return c.rules.s.showing(ctx, reading, c.call, each)
}

// Newest returns the newest turn of a session: its events if they are kept, and its outcome. If the session has no
// turn, and none is in flight, the outcome is orchestrator.ErrNothingToResume. The reader counts as one of GET events.
func (x *Rules[S]) Newest(session string, reply func(*orchestrator.Result[S]) Reply) Show {
	return Show{
		Session: session,
		Events: func(ctx context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				defer x.s.readers.Add(-1)
				if x.s.readers.Add(1) > int64(x.s.MaxReaders) {
					yield(orchestrator.Shown{}, errReaders)
					return
				}
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				defer context.AfterFunc(x.s.bot.Serving(), func() { cancel(orchestrator.ErrShuttingDown) })()
				if _, more, err := x.s.bot.LastShown(ctx, session); err != nil || !more {
					return
				}
				for ev, err := range x.s.bot.Follow(ctx, session, stream.Newest) {
					if errors.Is(context.Cause(ctx), orchestrator.ErrShuttingDown) {
						err = orchestrator.ErrShuttingDown
					}
					if !yield(ev, err) || err != nil {
						return
					}
				}
			}
		},
		Outcome: func(ctx context.Context, last orchestrator.Event) (Reply, error) {
			res, err := outcomeOf(ctx, x.s.bot, session, &last)
			if last.Kind == "" && errors.Is(err, orchestrator.ErrIndeterminate) {
				err = &orchestrator.Error{Op: "follow", Session: session, Err: orchestrator.ErrNothingToResume}
			}
			if err != nil {
				return Reply{}, err
			}
			return asked(res, reply)
		},
	}
}

func asked[S any](res *orchestrator.Result[S], reply func(*orchestrator.Result[S]) Reply) (Reply, error) {
	return ask("Options.Reply", func() (Reply, error) { return replyOf(res, reply), nil })
}
