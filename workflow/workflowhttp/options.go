package workflowhttp

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/workflow"
)

// Options say what clients may do. Authorize has no default.
type Options struct {
	// Authorize says whether the client may do this. ErrDenied is 403, and any other error 401. It is called before
	// anything is read or run. The names in the Target are valid, and need not exist. Allow each action by its name,
	// and refuse all others: a later version may have more of them. If Authorize panics, the client gets 500.
	Authorize func(r *http.Request, action Action, to Target) error

	// Prefix begins the path of each route. "" means "/v1", and "/" means none.
	Prefix string

	// Subscriptions are those of the store. If it is nil, the routes of topics are 404.
	Subscriptions workflow.Subscriptions

	// MaxBody is how many bytes the body of a request may have. 0 means 64 KiB more than workflow.MaxValue.
	MaxBody int64

	// Origins are those of the pages that may call the handler from a browser, such as "https://app.example.com". "*"
	// is every origin. Their pages may send the headers of the routes, Authorization, and those that Security names.
	// nil means that only pages of the handler's own origin may call.
	Origins []string

	// Credentials says that the pages of Origins may send cookies, too. Origins must not have "*" then.
	Credentials bool

	// ProblemBase begins the type of each problem document: an absolute URL that ends in a slash or a "#". "" means
	// "/problems/".
	ProblemBase string

	// Security has the security schemes of the OpenAPI document, by name. A client needs one of them. nil means that
	// the document does not say how clients show who they are. Authorize decides all the same.
	Security map[string]any

	// Logger gets a line for each answer with a status of 500 or more. nil means slog.Default().
	Logger *slog.Logger
}

// A Target is what a request is about. The fields that the route does not name are empty.
type Target struct {
	Workflow     string
	Run          string
	Event        string
	Topic        string // a topic, or a pattern of topics
	Subscription string
}

// An Action is what a client wants to do.
type Action string

// The actions.
const (
	ActionIndex  Action = "index"  // see which workflows have runs, and how many
	ActionList   Action = "list"   // the runs of a workflow, with inputs and outputs
	ActionStart  Action = "start"  // a run of a workflow
	ActionRead   Action = "read"   // a run and its journal
	ActionSignal Action = "signal" // a run
	ActionCancel Action = "cancel" // a run
	ActionPause  Action = "pause"  // a run
	ActionResume Action = "resume" // a run that is held

	ActionSubscribe     Action = "subscribe"     // to a pattern of topics
	ActionSubscriptions Action = "subscriptions" // see who has subscribed to a pattern
	ActionUnsubscribe   Action = "unsubscribe"   // from a pattern
	ActionPublish       Action = "publish"       // a message: it starts a run of each subscription that fits
)

// ErrDenied is an error of Options.Authorize: the client is known, and may not do this.
var ErrDenied = errors.New("workflowhttp: denied")

// HeaderPresent is an Authorize for programs behind another perimeter, which has looked at the header Authorization. It
// lets all do everything who send the header, whatever it says.
func HeaderPresent(r *http.Request, _ Action, _ Target) error {
	if r.Header.Get("Authorization") == "" {
		return ErrDenied
	}
	return nil
}

// complete returns the options with their defaults. It panics if the handler cannot serve with them.
func (o *Options) complete() Options {
	if o == nil || o.Authorize == nil {
		panic("workflowhttp: Options.Authorize is nil: HeaderPresent lets everyone in who sends a header Authorization")
	}
	full := *o
	full.Prefix = strings.TrimSuffix(cmp.Or(o.Prefix, "/v1"), "/")
	if full.Prefix != "" && full.Prefix[0] != '/' {
		panic("workflowhttp: Options.Prefix does not begin with a slash")
	}
	full.MaxBody = cmp.Or(o.MaxBody, workflow.MaxValue+64<<10)
	full.Logger = cmp.Or(o.Logger, slog.Default())
	return full
}
