package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// What becomes of an answer. An error of the inbox is an orchestrator.ErrUnavailable, unless orchestrator.Public knows
// it.
var (
	// ErrNotAsked says that the session does not ask this, and has not taken an answer to it.
	ErrNotAsked = errors.New("approval: not asked")
	// ErrAnswered says that another answer was first.
	ErrAnswered = errors.New("approval: another answer was first")
	// ErrChanged says that the question is no longer what was shown.
	ErrChanged = errors.New("approval: the question has changed")
	// ErrExpired says that the question can no longer be answered.
	ErrExpired = errors.New("approval: the question has expired")
	// ErrDenied says that the question is none of those that Answer.Client may answer.
	ErrDenied = errors.New("approval: denied")
	// ErrInvalid says that Desk.Answer has refused the answer, or that the inbox cannot keep it.
	ErrInvalid = errors.New("approval: invalid answer")
)

// A Question is something that a settled state asks a person.
type Question struct {
	// ID names the question in its session: see NewID. Do not use it again for another question.
	ID string

	// Shown is shown to the person, as JSON. An answer says what was shown, by its sum. An answer to something else is
	// refused.
	Shown any

	// Expires is when the question can no longer be answered. Zero means never.
	Expires time.Time

	// Client says that the client's side answers, such as a page that runs a tool of the bot.
	Client bool
}

// NewID returns an id for a question that nobody can guess. Keep it in the state: a run that is taken up again before
// its turn has settled may ask with another id.
func NewID() string { return rand.Text() }

// Encode returns Shown as JSON, and the sum of the session, the question and Shown.
func (q Question) Encode(session string) (shown json.RawMessage, sum string, err error) {
	if shown, err = json.Marshal(q.Shown); err != nil {
		return nil, "", err
	}
	sum, err = inbox.Sum([]any{session, q.ID, shown})
	return shown, sum, err
}

// An Answer holds the answer of a person.
type Answer struct {
	Data json.RawMessage

	// Sum is that of the question which the person has seen. Desk.Answer is not given it.
	Sum string

	// By is the id of the person, at most 512 bytes. The same person has the same id each time: an answer by another is
	// not a repeat.
	By string

	// Client says that the person may answer questions with Question.Client only. Desk.Answer is not given it.
	Client bool
}

// A Desk has the questions of a bot. All fields but Timeout and OnError are required. The Inbox has to be the one that
// the bot's other processes use. The methods of a Desk may be called concurrently.
type Desk[S any] struct {
	Bot *orchestrator.Orchestrator[S]

	// Questions returns what a settled state asks a person. nil means nothing.
	Questions func(*S) []Question

	// Answer makes an input of an answer. The Desk sets the request id, the origin orchestrator.FromAnswer, and By. A
	// turn that does what a person has approved asks for this origin. If Answer returns an error, the answer is not
	// kept: an *orchestrator.InputError is for the person, and any other error is ErrInvalid. Answer must make the same
	// input each time, and the turn should check that the question is still asked: another input may have come first.
	Answer func(Question, Answer) (orchestrator.Input, error)

	// Inbox keeps the answers until their turns have settled.
	Inbox inbox.Store

	// Timeout is how long a turn of Run may take. A turn that is not settled by then is left in flight. 0 means 5m.
	Timeout time.Duration

	// OnError is told of what no caller is told: what has failed in Run, and an answer that was taken and not removed.
	// The text of such an error may repeat what a user said, and is not for logs as it is. nil means that no one is
	// told.
	OnError func(ctx context.Context, err error)
}

func (d *Desk[S]) report(ctx context.Context, err error) {
	foreign.Told(ctx, "Desk.OnError", err, func(err error) {
		if d.OnError != nil {
			d.OnError(ctx, err)
		}
	})
}

func (d *Desk[S]) key(session string) inbox.Key {
	return inbox.Key{Orchestrator: d.Bot.Name(), Session: session}
}
