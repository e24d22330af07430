package workflowhttp

import (
	_ "embed"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/workflow"
)

// New returns a handler of the runs of f: see the package comment. It panics without an Options.Authorize, and if
// Prefix, Origins, ProblemBase or Security cannot be meant so.
func New(f workflow.Front, o *Options) http.Handler {
	s := &server{Options: o.complete(), front: f, client: workflow.NewClient(f)}
	site, err := httpjson.Site{
		Origins: s.Origins, Credentials: s.Credentials, ProblemBase: s.ProblemBase, Security: s.Security,
		Document: openAPI,
	}.Open()
	if err != nil {
		panic("workflowhttp: " + err.Error())
	}
	s.site = site
	s.routes = s.table()
	return s
}

type server struct {
	Options

	front  workflow.Front
	client *workflow.Client
	routes []route
	site   *httpjson.Site
}

// A route serves a method and a path.
type route struct {
	httpjson.Route

	action Action // "" if all may
	serve  serving
}

// A serving answers a request. If it returns an error, it has written nothing, or the answer is cut off.
type serving func(w http.ResponseWriter, r *http.Request, to Target) error

// table returns the routes. One without a method is a path that takes none.
func (s *server) table() []route {
	all := []route{
		{httpjson.On("GET", "workflows"), ActionIndex, s.getIndex},
		{httpjson.On("", "workflows/*"), "", nil},
		{httpjson.On("POST", "workflows/*/runs"), ActionStart, s.postRun},
		{httpjson.On("GET", "workflows/*/runs"), ActionList, s.getRuns},
		{httpjson.On("GET", "workflows/*/runs/*"), ActionRead, s.getRun},
		{httpjson.On("DELETE", "workflows/*/runs/*"), ActionCancel, s.deleteRun},
		{httpjson.On("POST", "workflows/*/runs/*/pause"), ActionPause, s.control(s.client.Pause)},
		{httpjson.On("POST", "workflows/*/runs/*/resume"), ActionResume, s.control(s.client.Resume)},
		{httpjson.On("POST", "workflows/*/runs/*/signals/*"), ActionSignal, s.postSignal},
		{httpjson.On("GET", "workflows/*/runs/*/steps"), ActionRead, s.getSteps},
		{httpjson.On("GET", "openapi.json"), "", s.getOpenAPI},
	}
	if s.Subscriptions == nil {
		return all
	}
	return append(all,
		route{httpjson.On("POST", "topics/*/subscriptions"), ActionSubscribe, s.postSubscription},
		route{httpjson.On("GET", "topics/*/subscriptions"), ActionSubscriptions, s.getSubscriptions},
		route{httpjson.On("DELETE", "topics/*/subscriptions/*"), ActionUnsubscribe, s.deleteSubscription},
		route{httpjson.On("POST", "topics/*/messages"), ActionPublish, s.postMessage},
	)
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w := &answer{ResponseWriter: to}
	s.site.Admit(w.Header(), r)
	httpjson.LimitBody(w, r, s.MaxBody) // first: the server reads the body of a request that is refused, too
	at, about, err := s.find(w, r)
	if s.site.Preflight(w, r, err) {
		return
	}
	if err == nil {
		err = serveSafely(s.admitted(at), w, r, about)
	}
	if err != nil {
		s.fail(w, r, about, err)
	}
}

// find returns the route of a request, and what the request is about.
func (s *server) find(w http.ResponseWriter, r *http.Request) (found route, to Target, _ error) {
	found, names, err := httpjson.Find(w.Header(), r, s.Prefix, s.routes)
	if err != nil {
		return found, to, err
	}
	to, err = about(found, names)
	return found, to, invalid(err)
}

// about returns what the names of a path say. They are valid, or it is an error.
func about(at route, names []string) (to Target, err error) {
	names = append(names, "", "", "")
	switch {
	case at.Path[0] == "topics" && at.action == ActionPublish:
		to.Topic = names[0]
		return to, workflow.ValidatePublish(to.Topic, "id", nil)
	case at.Path[0] == "topics":
		to.Topic, to.Subscription = names[0], names[1]
		s := workflow.Subscription{ID: to.Subscription, Pattern: to.Topic, Workflow: "any"}
		if at.action != ActionUnsubscribe {
			s.ID = "any"
		}
		return to, s.Validate()
	}
	to.Workflow, to.Run, to.Event = names[0], names[1], names[2]
	for i, segment := range at.Path {
		if err != nil || segment != "*" {
			continue
		}
		switch i {
		case 1:
			err = workflow.ValidateName(to.Workflow)
		case 3:
			err = workflow.ValidateRun(to.Run)
		default:
			err = workflow.ValidateEvent(to.Event)
		}
	}
	return to, err
}

// admitted serves clients that Authorize lets in, and reads the body that a route does not take.
func (s *server) admitted(at route) serving {
	return func(w http.ResponseWriter, r *http.Request, to Target) error {
		if at.action != "" {
			if err := s.authorize(r, at.action, to); err != nil {
				return err
			}
		}
		if at.Method != http.MethodPost {
			if err := httpjson.DropBody(w, r); err != nil {
				return err
			}
		}
		return at.serve(w, r, to)
	}
}

func (s *server) authorize(r *http.Request, action Action, to Target) error {
	err := logtext.Shield(s.Authorize(r, action, to))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDenied):
		return httpjson.ErrForbidden
	}
	return httpjson.ErrUnauthorized
}

// bare reads the body of a POST that needs none. A page of another origin may not send such a POST: its type is JSON.
func bare(w http.ResponseWriter, r *http.Request) error {
	if err := httpjson.CheckType(r); err != nil {
		return err
	}
	return httpjson.DropBody(w, r)
}

// reply writes a document.
func reply(w http.ResponseWriter, status int, doc any) error {
	if err := httpjson.Reply(w, status, doc); err != nil {
		return errors.Join(errInternal, err)
	}
	return nil
}

//go:embed openapi.json
var openAPI []byte

func (s *server) getOpenAPI(w http.ResponseWriter, _ *http.Request, _ Target) error {
	s.site.ServeDocument(w)
	return nil
}
