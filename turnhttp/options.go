package turnhttp

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Options say what clients may do and see. Authorize and Reply have no default. If one of the functions panics, the
// client gets 500, or the event "problem", and the panic is logged: to Service.Logger under [Serve], and otherwise to
// slog.Default().
type Options[S any] struct {
	// Authorize says whether the client may use the session. ErrDenied is 403, and any other error 401. It is called
	// before anything is read or run. Anyone lets all in.
	Authorize func(r *http.Request, session string) error

	// Reply returns what of a settled turn leaves the process, as JSON.
	Reply func(*orchestrator.Result[S]) any

	// Input reads the input of a turn. nil means a JSON object {"message": …, "data": …}: Text and Data of the Input.
	// The request id is the Idempotency-Key in any case, if there is one. The body of the request ends with an
	// *http.MaxBytesError after MaxBody. An error that is no *orchestrator.InputError is 400. ReadJSON is of use there.
	Input func(*http.Request) (orchestrator.Input, error)

	// Questions returns what a settled state asks a person. nil means nothing.
	Questions func(*S) []Question

	// Answer makes an input of an answer. The handler sets the request id. An error that is no *orchestrator.InputError
	// is 400, and the answer is not kept. It is required with Questions. It must make the same input each time, and the
	// turn should check that the question is still asked: another input may have come first.
	Answer func(Question, Answer) (orchestrator.Input, error)

	// Inbox keeps the answers until their turns have settled. It is required with Questions.
	Inbox inbox.Store

	// Ledger is the ledger of the bot. If it is nil, no effects are shown.
	Ledger ledger.Ledger

	// Who names the client that answers. It must not be "". nil means "client", for all.
	Who func(*http.Request) string

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

	// OnError is told of each error that a client saw as a status of 500 or more. The text of such an error may repeat
	// what a user said, and is not for logs as it is. The bot itself logs how its turns end. If a function of the
	// Options has panicked, errors.As finds an *orchestrator.PanicError in it, with the stack. nil means that no one is
	// told.
	OnError func(r *http.Request, err error)
}

// A Question is something that a settled state asks a person.
type Question struct {
	// ID names the question in its session. Do not use it again for another question.
	ID string

	// Shown is shown to the person, as JSON. Its hash is inbox.Sum: an answer to something else is refused.
	Shown any

	// Expires is when the question can no longer be answered. Zero means never.
	Expires time.Time
}

// An Answer holds the answer of a person.
type Answer struct {
	Data json.RawMessage

	// By is whose answer it is, as Options.Who says.
	By string
}

// ErrDenied is an error of Options.Authorize: the client is known, and may not use the session.
var ErrDenied = errors.New("turnhttp: denied")

// Anyone is an Authorize for programs behind another perimeter.
func Anyone(*http.Request, string) error { return nil }

// check panics if an option without a default is missing.
func (o *Options[S]) check() {
	switch {
	case o.Authorize == nil:
		panic("turnhttp: Options.Authorize is nil: Anyone lets all in")
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
	if o.Who == nil {
		o.Who = func(*http.Request) string { return "client" }
	}
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	return o
}
