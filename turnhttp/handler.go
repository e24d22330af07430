package turnhttp

import (
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Handler serves the sessions of a bot: see the package comment. It panics if Authorize or Reply is nil, or if there
// are Questions without Inbox and Answer. The Inbox and the Ledger have to be the ones that the bot's other processes
// use.
func Handler[S any](bot *orchestrator.Orchestrator[S], o Options[S]) http.Handler {
	o.check()
	s := &server[S]{Options: o.orDefaults(), bot: bot}
	s.routes = s.table()
	return s
}

type server[S any] struct {
	Options[S]
	bot    *orchestrator.Orchestrator[S]
	routes []route

	// readers counts the readers of GET events.
	readers atomic.Int64
}

// A route serves a method and a path. In path, "*" is any name.
type route struct {
	method string
	path   []string
	action Action // "" if there is no session
	serve  serving
}

// A target is what a request is about, and who sends it.
type target struct {
	session string
	id      string // of the question or the effect
	actor   Actor
}

// A serving answers a request. If it returns an error, it has written nothing.
type serving func(w http.ResponseWriter, r *http.Request, to target) error

// table returns the routes.
func (s *server[S]) table() []route {
	return []route{
		{"POST", []string{"sessions", "*", "turns"}, ActionTurn, s.postTurn},
		{"GET", []string{"sessions", "*", "events"}, ActionFollow, s.getEvents},
		{"POST", []string{"sessions", "*", "resume"}, ActionResume, s.postResume},
		{"POST", []string{"sessions", "*", "abandon"}, ActionAbandon, s.postAbandon},
		{"GET", []string{"sessions", "*"}, ActionRead, s.getSession},
		{"DELETE", []string{"sessions", "*"}, ActionDelete, s.deleteSession},
		{"GET", []string{"sessions", "*", "questions"}, ActionRead, s.getQuestions},
		{"POST", []string{"sessions", "*", "questions", "*"}, ActionAnswer, s.postAnswer},
		{"GET", []string{"sessions", "*", "effects"}, ActionRead, s.getEffects},
		{"POST", []string{"sessions", "*", "effects", "*"}, ActionResolve, s.postEffect},
		{"GET", []string{"openapi.json"}, "", getOpenAPI},
	}
}

// ServeHTTP implements [http.Handler].
func (s *server[S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, to, err := s.find(w, r)
	if err == nil { // find is over: a reader that waits keeps its stack
		err = at(w, r, to)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// fail answers with a problem.
func (s *server[S]) fail(w http.ResponseWriter, r *http.Request, err error) {
	abort(err)
	if Status(err) >= http.StatusInternalServerError {
		s.report(r.Context(), r, err)
	}
	hurryBody(w, r)
	allowWrite(w)
	Problem(w, r, err)
}

// find returns the route of a request, and what it is about, if the client may do so.
func (s *server[S]) find(w http.ResponseWriter, r *http.Request) (_ serving, to target, _ error) {
	limitBody(w, r, s.MaxBody) // first: the server reads the body of a request that is refused, too
	path, err := segments(r.URL)
	if err != nil {
		return nil, to, errNotFound
	}
	var allowed []string
	for _, at := range s.routes {
		names, ok := at.match(path)
		switch {
		case !ok:
		case !at.takes(r.Method):
			allowed = append(allowed, at.methods()...)
		default:
			to, err := s.admit(r, at.action, names)
			if err == nil && (at.method != http.MethodPost || at.action == ActionResume) {
				err = dropBody(w, r)
			}
			return at.serve, to, err
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, to, errMethod
	}
	return nil, to, errNotFound
}

// segments returns the names of a path, unescaped.
func segments(u *url.URL) ([]string, error) {
	all := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for i, name := range all {
		plain, err := url.PathUnescape(name)
		if err != nil {
			return nil, err
		}
		all[i] = plain
	}
	return all, nil
}

// match returns the names in a path that stand where the route has "*".
func (at route) match(path []string) (names []string, ok bool) {
	ok = slices.EqualFunc(at.path, path, func(want, got string) bool {
		if want == "*" {
			names = append(names, got)
			return true
		}
		return want == got
	})
	return names, ok
}

// methods returns the methods of the route. Like a pattern of http.ServeMux, a GET also takes HEAD.
func (at route) methods() []string {
	if at.method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{at.method}
}

func (at route) takes(method string) bool {
	return at.method == method || at.method == http.MethodGet && method == http.MethodHead
}

// admit refuses names that cannot be any, and clients that may not do this in the session.
func (s *server[S]) admit(r *http.Request, action Action, names []string) (to target, _ error) {
	for _, name := range names {
		if ids.Check("name", name) != nil {
			return to, errBadRequest.because("A name in the path has to be text of 1 to 512 bytes.")
		}
	}
	if action == "" {
		return to, nil
	}
	if to.session = names[0]; len(names) > 1 {
		to.id = names[1]
	}
	actor, err := ask("Options.Authorize", func() (Actor, error) { return s.Authorize(r, to.session, action) })
	switch {
	case panicOf(err) != nil:
		return to, err
	case errors.Is(err, ErrDenied):
		return to, errForbidden
	case err != nil, ids.Check("actor", string(actor)) != nil:
		return to, errUnauthorized
	}
	to.actor = actor
	return to, nil
}

// writePatience is how long a write may take. A client that takes nothing for so long is cut off.
const writePatience = 15 * time.Second

// allowWrite gives the next write its time, whatever the server's own WriteTimeout.
func allowWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
}

// reply writes a document. If JSON has no place for it, nothing is written yet.
func reply(w http.ResponseWriter, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	allowWrite(w)
	w.Header().Set("Content-Type", "application/json")
	guard(w.Header())
	_, _ = w.Write(append(b, '\n'))
	return nil
}

//go:embed openapi.json
var openAPI []byte

func getOpenAPI(w http.ResponseWriter, _ *http.Request, _ target) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI)
	return nil
}
