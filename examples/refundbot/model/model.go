package model

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Model reads and writes for the bot. It decides nothing: what an order is, and whether a refund is paid, is the
// bot's business. Its methods may be called concurrently.
type Model interface {
	// Classify says what a text of the customer asks for. The text is not part of the history.
	Classify(ctx context.Context, history []message.Message, text string) (Intent, Usage, error)

	// Compose writes a reply. It calls emit with each piece as soon as it has the piece. The pieces are the reply.
	Compose(ctx context.Context, p Prompt, emit func(piece string)) (string, Usage, error)

	// Summarize writes a short text that stands for the messages from now on.
	Summarize(ctx context.Context, messages []message.Message) (string, Usage, error)
}

// Usage counts the tokens and the cost of a call. It counts even if the call fails, as far as the model says it.
type Usage = orchestrator.Usage

// The categories of an Intent.
const (
	Refund   = "refund"
	Shipping = "shipping"
	Other    = "other"
)

// An Intent classifies a text.
type Intent struct {
	// Category is Refund if the text asks for a refund, or wants to give back or cancel an order. It is Shipping if the
	// text asks where an order is, or how it stands with a request. It is Other for all else, and for a text that only
	// answers, such as "yes please" or an order id: the bot knows what it has asked.
	Category string `json:"category"`

	// Order is the id of the order that the text names, such as A-1042, or a number without its letter. It is "" if
	// the text names none.
	Order string `json:"order"`

	// Also holds the further orders that the text names, for which it wants the same. If it wants different things of
	// several orders, Order is "" and Also has all of them.
	Also []string `json:"also"`

	// Another says that the text means another order than before, and does not name it.
	Another bool `json:"another"`

	// Yes and No say that the text agrees or refuses: "yes please", "no thanks". With Refund, No says that the customer
	// wants no refund, or none any more.
	Yes bool `json:"yes"`
	No  bool `json:"no"`
}

// A Prompt holds all that a reply needs.
type Prompt struct {
	// History is the conversation so far, as much of it as the model shall see. It ends before Text.
	History []message.Message

	// Text is the customer's message.
	Text string

	// Category is that of the Intent.
	Category string

	// Order is the id of the order that this is about. "" means that none is known.
	Order string

	// Facts are sentences that the reply has to tell, in this order. The reply must not go beyond them.
	Facts []string

	// Recalled holds the memories about the customer.
	Recalled []string

	// Feedback is why the reply before must not be sent. It is "" the first time.
	Feedback string
}

// What may be wrong with an answer.
var (
	// ErrReply says that the answer is of no use: it is cut off, or no JSON as asked for. Another attempt may help.
	ErrReply = errors.New("model: unusable reply")

	// ErrRefused says that the model does not want to answer. Another attempt does not help: it is retry.Permanent.
	ErrRefused = errors.New("model: refused to answer")
)
