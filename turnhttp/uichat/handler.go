package uichat

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Options say what pages may send and see. nil is the zero Options.
type Options struct {
	// File takes a file that a user sends, and returns the words that stand for it in the message: where the program
	// has put it, say. A repeat of the message calls it again, and has to get the same words. An error that is no
	// *orchestrator.InputError is 400. If File is nil, a message with a file is refused.
	File func(r *http.Request, session string, f File) (string, error)

	// Part returns what the page gets of a part: a call of a tool, its result, or reasoning. The zero Part is nothing.
	// It is the place to hide what a tool was given or has found, also from the history. nil shows all.
	Part func(turnhttp.Part) turnhttp.Part
}

// A File is a file part of a message. URL is a data URL, unless the page has put the file elsewhere.
type File struct{ Name, MediaType, URL string }

// Handler serves the sessions of a bot to pages with useChat, by the DefaultChatTransport of the AI SDK 7 as it is. The
// path of the handler is the api of the transport:
//
//	chat := uichat.Handler(a.Bot(), a.Options(turnhttp.Options[agent.State[Memory]]{Authorize: authorize}), nil)
//	mux.Handle("/api/chat", chat)
//	mux.Handle("/api/chat/", chat)
//
//	POST api                a message, an edit, another reply, or answers to what the bot asks
//	GET  api/{id}/stream    the turn in flight, from its first event on; 204 if there is none
//	POST api/{id}/stop      ask the turn in flight to stop
//	GET  api/{id}/messages  what was said, as UIMessages; with before, what was said before that number
//
// The options are those of turnhttp.Handler, for the bot of an agent those of Agent.Options. Authorize is asked for
// ActionTurn, ActionAnswer or ActionClient, ActionFollow and ActionStop. Input gets a request whose body is {"message":
// …}. Of what Reply returns, the member "text" is the text, and all of it is a part data-reply; a turnhttp.Reply is
// used as it is. MaxBody is 8 MiB by default, since the page sends all messages with each request. Only the newest one
// counts: the bot has the others. ProblemBase and Security have no effect.
//
// # What a message is
//
// A message of the user is one turn, and its id is the request id: a repeat runs nothing twice. What the bot says until
// the next message of the user is one message, and its id is the id of the run that began it. Its metadata has the
// usage and the cost of the newest turn. A message with a known id and another text is an edit, and with trigger
// regenerate-message the same text is said again. Both are one turn, which forgets the message and all behind it, and
// then hears the text. Nothing that tools have done is undone. Only an Options.Chat that is a turnhttp.Editor takes
// them, as that of an agent is; otherwise they are 409.
//
// # What a bot asks
//
// A question is an approval of its tool call, and the page answers by addToolApprovalResponse. The answer is
// {"approved": …, "note": …}, and takes the way of each answer: the first one counts, and the person who gives it needs
// ActionAnswer. A question with Question.Client is a call for the page, which answers by addToolOutput: {"result": …,
// "failed": …}. If a request has several answers, each is a turn, and those before one that is refused are taken.
//
// # A stream that breaks
//
// Each answer that ends has a finish, an error or an abort. If none came, the page asks GET stream and GET messages:
// docs/http.md has the lines. What a later attempt says anew is taken back by reset-step, so the page shows it once.
func Handler[S any](bot *orchestrator.Orchestrator[S], o turnhttp.Options[S], ui *Options) http.Handler {
	turnhttp.Handler(bot, o) // it panics if an option is missing
	site, err := httpjson.Site{Origins: o.Origins, Credentials: o.Credentials}.Open()
	if err != nil {
		panic("uichat: " + err.Error())
	}
	s := &server[S]{bot: bot, o: o, site: site, desk: o.Desk(bot), reply: tell.ReplyOf(o)}
	if ui != nil {
		s.ui = *ui
	}
	s.o.MaxBody = cmp.Or(o.MaxBody, 8<<20)
	s.o.MaxReaders = cmp.Or(o.MaxReaders, 5000)
	s.o.TurnTimeout = cmp.Or(o.TurnTimeout, 5*time.Minute)
	s.editor, _ = o.Chat.(turnhttp.Editor)
	s.below = []route{
		{httpjson.On("GET", "*/stream"), turnhttp.ActionFollow, s.getStream},
		{httpjson.On("GET", "*/messages"), turnhttp.ActionFollow, s.getMessages},
		{httpjson.On("POST", "*/stop"), turnhttp.ActionStop, s.postStop},
	}
	s.top = []route{{httpjson.On("POST", ""), "", s.postChat}}
	return s
}

type server[S any] struct {
	bot    *orchestrator.Orchestrator[S]
	o      turnhttp.Options[S]
	ui     Options
	site   *httpjson.Site
	desk   *approval.Desk[S] // nil without questions
	editor turnhttp.Editor   // nil if nothing can be edited
	reply  func(*orchestrator.Result[S]) turnhttp.Reply

	top, below []route

	readers atomic.Int64 // of GET stream
}

// A route serves a method and the end of a path.
type route struct {
	httpjson.Route

	action turnhttp.Action // "" if the body names the session
	serve  func(http.ResponseWriter, *http.Request, target) error
}

// A target is what a request is about, and who sends it.
type target struct {
	session string
	actor   turnhttp.Actor

	// client says that the actor may only answer questions with Question.Client.
	client bool
}

// ServeHTTP implements [http.Handler].
func (s *server[S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.site.Admit(w.Header(), r)
	httpjson.LimitBody(w, r, s.o.MaxBody)
	at, names, err := s.find(w.Header(), r)
	if s.site.Preflight(w, r, err) {
		return
	}
	var to target
	if err == nil && at.action != "" {
		to, err = s.admit(r, names[0], at.action)
		if err == nil && r.Method == http.MethodPost { // a form of another origin may not send this
			err = httpjson.CheckType(r)
		}
		if err == nil {
			err = httpjson.DropBody(w, r)
		}
	}
	if err == nil {
		err = at.serve(w, r, to)
	}
	if err == nil {
		return
	}
	foreign.Abort(err)
	s.report(r, err)
	httpjson.HurryBody(w, r)
	httpjson.AllowWrite(w)
	front.Write(w, err)
}

// find returns the route of a request. The handler may be below any path: only the end of the path counts.
func (s *server[S]) find(h http.Header, r *http.Request) (at route, names []string, err error) {
	all := strings.Split(r.URL.EscapedPath(), "/")
	end := all[max(0, len(all)-2):]
	if len(end) == 2 && slices.Contains([]string{"stream", "messages", "stop"}, end[1]) && end[0] != "" {
		path := strings.Join(end, "/")
		plain, err := url.PathUnescape(path)
		if err != nil {
			return at, nil, httpjson.ErrNotFound
		}
		tail := &http.Request{Method: r.Method, URL: &url.URL{Path: plain, RawPath: path}}
		return httpjson.Find(h, tail, "", s.below)
	}
	return httpjson.Find(h, &http.Request{Method: r.Method, URL: new(url.URL)}, "", s.top)
}

// admit refuses names that cannot be any, and clients that may not do this in the session.
func (s *server[S]) admit(r *http.Request, session string, action turnhttp.Action) (to target, _ error) {
	if ids.Check("session", session) != nil {
		return to, httpjson.ErrBadRequest.Because("The id of a chat has to be text of 1 to 512 bytes.")
	}
	actor, err := foreign.Ask("Options.Authorize", func() (turnhttp.Actor, error) {
		return s.o.Authorize(r, session, action)
	})
	switch {
	case foreign.PanicOf(err) != nil:
		return to, err
	case errors.Is(err, turnhttp.ErrDenied):
		return to, httpjson.ErrForbidden
	case err != nil, ids.Check("actor", string(actor)) != nil:
		return to, httpjson.ErrUnauthorized
	}
	return target{session: session, actor: actor}, nil
}

// report tells the program of an error that a client saw as a status of 500 or more.
func (s *server[S]) report(r *http.Request, err error) {
	if s.o.OnError != nil && front.Public(err).Status >= http.StatusInternalServerError {
		foreign.Told(r.Context(), "Options.OnError", err, func(err error) { s.o.OnError(r, err) })
	}
}

// finish returns the context of a call that is not to stop half-way because its client has gone.
func (s *server[S]) finish(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), s.o.TurnTimeout)
}

// write sends a Show to a page.
func (s *server[S]) write(w http.ResponseWriter, r *http.Request, show turnhttp.Show, g *page) {
	show.Part = s.ui.Part
	w.Header().Set(header, "v1")
	err := tell.Run(w, r, show, header, func(out *front.Sender) tell.Protocol { return &protocol{out: out, page: g} })
	if err != nil && r.Context().Err() == nil {
		s.report(r, err)
	}
}

// postStop asks the turn in flight to stop.
func (s *server[S]) postStop(w http.ResponseWriter, r *http.Request, to target) error {
	if s.o.Chat == nil {
		return httpjson.ErrNotFound
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	st, err := s.inspect(ctx, to.session)
	if err != nil {
		return err
	}
	if st.Run != nil {
		_, err := foreign.Ask("Options.Chat", func() (struct{}, error) {
			return struct{}{}, s.o.Chat.Stop(ctx, to.session, st.Run.ID, "stopped by "+string(to.actor))
		})
		if err != nil {
			return err
		}
	}
	return httpjson.Reply(w, http.StatusOK, map[string]bool{"stopping": st.Run != nil})
}

func (s *server[S]) inspect(ctx context.Context, session string) (orchestrator.Standing, error) {
	st, err := s.bot.Inspect(ctx, session)
	if _, drift := errors.AsType[*orchestrator.DriftError](err); drift {
		err = nil
	}
	return st, err
}
