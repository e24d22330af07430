package turnhttp

import (
	_ "embed"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Handler serves the sessions of a bot: see the package comment. It panics if Authorize or Reply is nil, if there are
// Questions without Inbox and Answer, or if Origins, ProblemBase or Security cannot be meant so. The Inbox and the
// Ledger have to be the ones that the bot's other processes use.
func Handler[S any](bot *orchestrator.Orchestrator[S], o Options[S]) http.Handler {
	return newServer(bot, o)
}

func newServer[S any](bot *orchestrator.Orchestrator[S], o Options[S]) *server[S] {
	o.check()
	site, err := httpjson.Site{
		Origins: o.Origins, Credentials: o.Credentials, ProblemBase: o.ProblemBase, Security: o.Security,
		Document: openAPI,
	}.Open()
	if err != nil {
		panic("turnhttp: " + err.Error())
	}
	s := &server[S]{Options: o.orDefaults(), bot: bot, desk: o.Desk(bot), site: site}
	s.routes = s.table()
	return s
}

type server[S any] struct {
	Options[S]
	bot    *orchestrator.Orchestrator[S]
	desk   *approval.Desk[S] // nil without questions
	routes []route
	site   *httpjson.Site

	// readers counts the readers of GET events.
	readers atomic.Int64
}

// A route serves a method and a path.
type route struct {
	httpjson.Route

	action Action // "" if there is no session
	serve  serving
}

// A target is what a request is about, and who sends it.
type target struct {
	session string
	id      string // of the question, the effect or the request
	actor   Actor

	// client says that ActionClient has let the client in: it sees and answers questions with Question.Client only.
	client bool
}

// A serving answers a request. If it returns an error, it has written nothing.
type serving func(w http.ResponseWriter, r *http.Request, to target) error

// table returns the routes.
func (s *server[S]) table() []route {
	return []route{
		{httpjson.On("POST", "sessions/*/turns"), ActionTurn, s.postTurn},
		{httpjson.On("GET", "sessions/*/turns/*"), ActionFollow, s.getTurn},
		{httpjson.On("GET", "sessions/*/events"), ActionFollow, s.getEvents},
		{httpjson.On("POST", "sessions/*/resume"), ActionResume, s.postResume},
		{httpjson.On("POST", "sessions/*/unpark"), ActionUnpark, s.postUnpark},
		{httpjson.On("POST", "sessions/*/abandon"), ActionAbandon, s.postAbandon},
		{httpjson.On("POST", "sessions/*/stop"), ActionStop, s.postStop},
		{httpjson.On("POST", "sessions/*/branch"), ActionBranch, s.postBranch},
		{httpjson.On("GET", "sessions/*"), ActionRead, s.getSession},
		{httpjson.On("GET", "sessions/*/messages"), ActionFollow, s.getMessages},
		{httpjson.On("DELETE", "sessions/*"), ActionDelete, s.deleteSession},
		{httpjson.On("GET", "sessions/*/questions"), ActionRead, s.getQuestions},
		{httpjson.On("POST", "sessions/*/questions/*"), ActionAnswer, s.postAnswer},
		{httpjson.On("GET", "sessions/*/effects"), ActionRead, s.getEffects},
		{httpjson.On("POST", "sessions/*/effects/*"), ActionResolve, s.postEffect},
		{httpjson.On("GET", "openapi.json"), "", s.getOpenAPI},
	}
}

// ServeHTTP implements [http.Handler].
func (s *server[S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.site.Admit(w.Header(), r)
	at, to, err := s.find(w, r)
	if err == nil { // find is over: a reader that waits keeps its stack
		err = at(w, r, to)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// fail answers with a problem, or with what a browser asks first.
func (s *server[S]) fail(w http.ResponseWriter, r *http.Request, err error) {
	if s.site.Preflight(w, r, err) {
		return
	}
	foreign.Abort(err)
	if Status(err) >= http.StatusInternalServerError {
		s.report(r.Context(), r, err)
	}
	httpjson.HurryBody(w, r)
	httpjson.AllowWrite(w)
	p := front.Public(err)
	httpjson.WriteProblem(w, p.Status, p.RetryAfter, s.problem(err))
}

// problem returns the document of an error.
func (s *server[S]) problem(err error) front.Problem { return front.Of(err).Below(s.site.ProblemBase) }

// find returns the route of a request, and what it is about, if the client may do so.
func (s *server[S]) find(w http.ResponseWriter, r *http.Request) (_ serving, to target, _ error) {
	httpjson.LimitBody(w, r, s.MaxBody) // first: the server reads the body of a request that is refused, too
	at, names, err := httpjson.Find(w.Header(), r, "", s.routes)
	if err != nil {
		return nil, to, err
	}
	to, err = s.admit(r, at.action, names)
	if errors.Is(err, errForbidden) && slices.Contains(at.Path, "questions") {
		to, err = s.admit(r, ActionClient, names)
		to.client = true
	}
	if err == nil && (at.Method != http.MethodPost || at.bare()) {
		err = httpjson.DropBody(w, r)
	}
	return at.serve, to, err
}

// bare reports whether a POST of the route needs no body.
func (at route) bare() bool { return at.action == ActionResume || at.action == ActionUnpark }

// admit refuses names that cannot be any, and clients that may not do this in the session.
func (s *server[S]) admit(r *http.Request, action Action, names []string) (to target, _ error) {
	for _, name := range names {
		if ids.Check("name", name) != nil {
			return to, errBadRequest.Because("A name in the path has to be text of 1 to 512 bytes.")
		}
	}
	if action == "" {
		return to, nil
	}
	if to.session = names[0]; len(names) > 1 {
		to.id = names[1]
	}
	actor, err := s.authorize(r, to.session, action)
	to.actor = actor
	return to, err
}

// authorize returns who acts, if the client may do this in a session.
func (s *server[S]) authorize(r *http.Request, session string, action Action) (Actor, error) {
	actor, err := ask("Options.Authorize", func() (Actor, error) { return s.Authorize(r, session, action) })
	switch {
	case foreign.PanicOf(err) != nil:
		return "", err
	case errors.Is(err, ErrDenied):
		return "", errForbidden
	case err != nil, ids.Check("actor", string(actor)) != nil:
		return "", errUnauthorized
	}
	return actor, nil
}

// reply writes a document. If JSON has no place for it, nothing is written yet.
func reply(w http.ResponseWriter, doc any) error { return httpjson.Reply(w, http.StatusOK, doc) }

//go:embed openapi.json
var openAPI []byte

func (s *server[S]) getOpenAPI(w http.ResponseWriter, _ *http.Request, _ target) error {
	s.site.ServeDocument(w)
	return nil
}
