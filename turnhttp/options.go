package turnhttp

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Options say what clients may do and see. Authorize and Reply have no default. If one of the functions panics, the
// client gets 500, or the event "problem", and the panic is logged: to Service.Logger under serve.Run, and otherwise to
// slog.Default().
type Options[S any] struct {
	// Authorize says whether the client may do this in the session, and who it is. ErrDenied is 403, and any other
	// error 401; so is an Actor of "". It is called before anything is read or run. Allow each action by its name, and
	// refuse all others: a later version may have more of them. Anyone lets all talk.
	Authorize func(r *http.Request, session string, action Action) (Actor, error)

	// Reply returns what of a settled turn leaves the process, as JSON.
	Reply func(*orchestrator.Result[S]) any

	// Input reads the input of a turn. nil means a JSON object {"message": …}: the Text of the Input. It takes no data:
	// what an Answer says in Data is not for a client to say. Whatever Input returns, the origin is
	// orchestrator.FromUser and By the Actor. The request id is the Idempotency-Key, if there is one. The body of the
	// request ends with an *http.MaxBytesError after MaxBody. An error that is no *orchestrator.InputError is 400.
	// ReadJSON is of use there.
	Input func(*http.Request) (orchestrator.Input, error)

	// Arrived is told of an input, with its request id, before its turn waits for the session. An error ends the
	// request, as one of the turn would. nil is none.
	Arrived func(ctx context.Context, session string, in orchestrator.Input) error

	// Questions returns what a settled state asks a person. nil means nothing.
	Questions func(*S) []approval.Question

	// Answer makes an input of an answer. The handler sets the request id, the origin orchestrator.FromAnswer, and By.
	// A turn that does what a person has approved asks for this origin. An error that is no *orchestrator.InputError is
	// 400, and the answer is not kept. Answer is required with Questions. It must make the same input each time, and
	// the turn should check that the question is still asked: another input may have come first.
	Answer func(approval.Question, approval.Answer) (orchestrator.Input, error)

	// Inbox keeps the answers until their turns have settled. It is required with Questions.
	Inbox inbox.Store

	// Ledger is the ledger of the bot. If it is nil, no effects are shown.
	Ledger ledger.Ledger

	// Chat has what was said in a session, stops runs, and branches. If it is nil, GET messages, POST stop and POST
	// branch are 404.
	Chat Chat

	// OptionalKey also takes turns without Idempotency-Key. Such a turn gets a random request id, unless Input gives
	// one.
	OptionalKey bool

	// TurnTimeout is how long a call may take, also without its client. A turn that is not settled by then is
	// left in flight. 0 means 5m.
	TurnTimeout time.Duration

	// MaxBody is how many bytes the body of a request may have. 0 means 1 MiB.
	MaxBody int64

	// MaxReaders is how many readers of GET events may be open at once. Another one is 503. 0 means 5000.
	MaxReaders int

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

	// OnError is told of each error that a client saw as a status of 500 or more. The text of such an error may repeat
	// what a user said, and is not for logs as it is. The bot itself logs how its turns end. If a function of the
	// Options has panicked, errors.As finds an *orchestrator.PanicError in it, with the stack. nil means that no one is
	// told.
	OnError func(r *http.Request, err error)
}

// An Actor is the id of the person or program that acts, at most 512 bytes. It stands in the row of what was answered,
// in the events and in logs. The same person has the same Actor each time: an answer of another Actor is not a repeat.
type Actor string

// An Action is what a client wants to do in a session.
type Action string

// The actions. No route of Handler has ActionForce: it is for routes of a program's own. For POST branch, Authorize is
// asked for ActionBranch in the session of the path, and then for ActionTurn in the new session.
const (
	ActionRead    Action = "read"    // the session, its turns, questions and effects
	ActionTurn    Action = "turn"    // say something
	ActionFollow  Action = "follow"  // the events, and what was said
	ActionResume  Action = "resume"  // finish the turn in flight
	ActionStop    Action = "stop"    // end a turn and keep what it has
	ActionAnswer  Action = "answer"  // a question
	ActionClient  Action = "client"  // see and answer the questions with Question.Client, and no others
	ActionResolve Action = "resolve" // say what became of an effect
	ActionUnpark  Action = "unpark"  // make a parked run due again
	ActionForce   Action = "force"   // go on in spite of drift or doubt
	ActionAbandon Action = "abandon" // end a run without a turn
	ActionBranch  Action = "branch"  // begin a session from a turn of this one: it shows all that was said up to there
	ActionDelete  Action = "delete"  // the session
)

// ErrDenied is an error of Options.Authorize: the client is known, and may not do this.
var ErrDenied = front.ErrDenied

// Anyone is an Authorize for programs behind another perimeter. It lets all read, say something and follow, in each
// session, as "anyone". The rest is for people whom Authorize tells apart.
func Anyone(r *http.Request, session string, action Action) (Actor, error) {
	return Allow("anyone", ActionRead, ActionTurn, ActionFollow)(r, session, action)
}

// Allow is an Authorize for programs behind another perimeter, such as a server that only the desk can reach. It lets
// all do the actions, in each session, as one Actor, and refuses the rest: without actions, everything.
func Allow(who Actor, actions ...Action) func(*http.Request, string, Action) (Actor, error) {
	return func(_ *http.Request, _ string, action Action) (Actor, error) {
		if slices.Contains(actions, action) {
			return who, nil
		}
		return "", ErrDenied
	}
}

// check panics if an option without a default is missing.
func (o *Options[S]) check() {
	switch {
	case o.Authorize == nil:
		panic("turnhttp: Options.Authorize is nil: Anyone lets all talk")
	case o.Reply == nil:
		panic("turnhttp: Options.Reply is nil")
	case o.Questions != nil && (o.Inbox == nil || o.Answer == nil):
		panic("turnhttp: Options.Questions without Inbox and Answer")
	}
}

func (o Options[S]) orDefaults() Options[S] {
	o.TurnTimeout = cmp.Or(o.TurnTimeout, 5*time.Minute)
	o.MaxBody = cmp.Or(o.MaxBody, 1<<20)
	o.MaxReaders = cmp.Or(o.MaxReaders, 5000)
	if o.Input == nil {
		o.Input = messageInput
	}
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	return o
}
