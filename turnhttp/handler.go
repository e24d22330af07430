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
	serve  serving
}

// A serving answers a request. names are the session, and the question or effect. If it returns an error, it has
// written nothing.
type serving func(w http.ResponseWriter, r *http.Request, names []string) error

// table returns the routes.
func (s *server[S]) table() []route {
	return []route{
		{"POST", []string{"sessions", "*", "turns"}, s.postTurn},
		{"GET", []string{"sessions", "*", "events"}, s.getEvents},
		{"POST", []string{"sessions", "*", "resume"}, s.postResume},
		{"POST", []string{"sessions", "*", "abandon"}, s.postAbandon},
		{"GET", []string{"sessions", "*"}, s.getSession},
		{"DELETE", []string{"sessions", "*"}, s.deleteSession},
		{"GET", []string{"sessions", "*", "questions"}, s.getQuestions},
		{"POST", []string{"sessions", "*", "questions", "*"}, s.postAnswer},
		{"GET", []string{"sessions", "*", "effects"}, s.getEffects},
		{"POST", []string{"sessions", "*", "effects", "*"}, s.postEffect},
		{"GET", []string{"openapi.json"}, getOpenAPI},
	}
}

// ServeHTTP implements [http.Handler].
func (s *server[S]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, names, err := s.find(w, r)
	if err == nil && !takesBody(r) {
		err = dropBody(w, r)
	}
	if err == nil { // find is over: a reader that waits keeps its stack
		err = at(w, r, names)
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

// find returns the route of a request, and the names in its path, if the client may use the session.
func (s *server[S]) find(w http.ResponseWriter, r *http.Request) (serving, []string, error) {
	limitBody(w, r, s.MaxBody) // first: the server reads the body of a request that is refused, too
	path, err := segments(r.URL)
	if err != nil {
		return nil, nil, errNotFound
	}
	var allowed []string
	for _, at := range s.routes {
		names, ok := at.match(path)
		switch {
		case !ok:
		case !at.takes(r.Method):
			allowed = append(allowed, at.methods()...)
		default:
			if err := s.admit(r, names); err != nil {
				return nil, nil, err
			}
			return at.serve, names, nil
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, nil, errMethod
	}
	return nil, nil, errNotFound
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

// admit refuses names that cannot be any, and clients that may not use the session.
func (s *server[S]) admit(r *http.Request, names []string) error {
	for _, name := range names {
		if ids.Check("name", name) != nil {
			return errBadRequest.because("A name in the path has to be text of 1 to 512 bytes.")
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err := ask("Options.Authorize", func() (struct{}, error) { return struct{}{}, s.Authorize(r, names[0]) })
	switch {
	case err == nil, panicOf(err) != nil:
		return err
	case errors.Is(err, ErrDenied):
		return errForbidden
	}
	return errUnauthorized
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

func getOpenAPI(w http.ResponseWriter, _ *http.Request, _ []string) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI)
	return nil
}
