package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/valid"
)

// The bounds of topics.
const (
	// MaxSubscriptions is how many subscriptions a store takes. A Publish reads them all.
	MaxSubscriptions = 1000

	// MaxTopic is how many bytes a topic or a pattern has at most, and maxSegments how many segments.
	MaxTopic    = 255
	maxSegments = 32

	// MaxMessage is how many bytes a message has at most, as the shortest JSON. What names its receiver goes with it
	// into the input of a run.
	MaxMessage = MaxValue - 16<<10

	maxURL = 2048
)

// ErrSubscriptions is the ErrInvalid of a store that has MaxSubscriptions. It is for authors of a store.
var ErrSubscriptions = fmt.Errorf("%w: there are %d subscriptions, and no more are taken", ErrInvalid, MaxSubscriptions)

// The built-in workflows, which package deliver has. Their input is a Delivery.
const (
	WebhookWorkflow = "webhook"
	SessionWorkflow = "session"
)

// A Subscription starts a run for each message of the topics that its pattern names. A topic is of segments, which dots
// separate. In a pattern * is one segment, and # is any number of segments, also none. Exactly one of Workflow, URL and
// Session is set.
type Subscription struct {
	// ID is 1 to 64 of letters, digits, '.', '_' and '-'. It is a part of the keys of the runs.
	ID      string
	Pattern string

	// Workflow is the workflow whose runs are started. The input of a run is the message.
	Workflow string

	// URL makes the built-in workflow "webhook" post the message there, with retries and a signature.
	URL string

	// Session makes the built-in workflow "session" give the message to a session.
	Session string
}

// Subscriptions are few rows. A store of runs has them, and so has what its In makes of a transaction.
type Subscriptions interface {
	// Subscribe adds a subscription, durable on return. If the id is known, with the same fields, Subscribe changes
	// nothing. With other fields it is ErrKeyReused. A store that has MaxSubscriptions refuses another one with
	// ErrInvalid. Calls at the same moment may pass the bound by a few.
	Subscribe(ctx context.Context, s Subscription) error

	// Unsubscribe removes a subscription, durable on return. If there is none with the id, it does nothing. Runs that
	// were started go on.
	Unsubscribe(ctx context.Context, id string) error

	// Subscriptions returns all subscriptions, by id in byte order. If one is damaged, it is a *DamagedError.
	Subscriptions(ctx context.Context) ([]Subscription, error)
}

// A Delivery is the input of a run of the built-in workflows "webhook" and "session".
type Delivery struct {
	Subscription string          `json:"subscription"`
	URL          string          `json:"url,omitempty"`
	Session      string          `json:"session,omitempty"`
	Topic        string          `json:"topic"`
	ID           string          `json:"id"` // of the message
	Message      json.RawMessage `json:"message"`
}

// Publish starts the runs of all subscriptions that topic fits: all or none, in one transaction, durable on return.
// They come in the order of the ids of their subscriptions. message is encoded as JSON.
//
// id names the message: 1 to 256 visible characters of ASCII. A second Publish with the id starts nothing, and returns
// the runs that there are, as long as they are kept: the key of a run is made of id and the subscription. With another
// message it is ErrKeyReused. A subscription that was added in between gets the message too.
//
// s is where the subscriptions are. If f has them itself, as a store, the Front of an engine, and what In makes of a
// transaction do, they are read from f, and s may be nil.
func Publish(ctx context.Context, f Front, s Subscriptions, topic, id string, message any) ([]Started, error) {
	doc, err := encode("message", message)
	if err != nil {
		return nil, err
	}
	if err := ValidatePublish(topic, id, doc); err != nil {
		return nil, err
	}
	if own, ok := f.(Subscriptions); ok {
		s = own
	}
	if s == nil {
		return nil, fmt.Errorf("%w: no subscriptions to publish to", ErrInvalid)
	}
	all, err := s.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	var runs []NewRun
	for i := range all {
		if fits(all[i].Pattern, topic) {
			n, err := all[i].run(topic, id, doc)
			if err != nil {
				return nil, err
			}
			runs = append(runs, n)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	return f.Start(ctx, runs)
}

// run returns the run of a message. Neither an id of a subscription nor the name of a workflow has a slash, so that no
// two messages have one key.
func (s *Subscription) run(topic, id string, doc json.RawMessage) (NewRun, error) {
	n := NewRun{ID: NewID(), Workflow: s.Workflow, Input: doc, Key: "topic/" + s.ID + "/" + id}
	switch {
	case s.URL != "":
		n.Workflow = WebhookWorkflow
	case s.Session != "":
		n.Workflow = SessionWorkflow
	default:
		return n, nil
	}
	in, err := encode("message", Delivery{s.ID, s.URL, s.Session, topic, id, doc})
	n.Input = in
	return n, err
}

var (
	subscriptionID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)
	messageID      = regexp.MustCompile(`^[!-~]{1,256}$`) // it becomes a header
	segment        = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// Validate checks a subscription.
func (s *Subscription) Validate() error {
	if err := cmp.Or(ValidateSubscription(s.ID), segments("pattern", s.Pattern, "*", "#")); err != nil {
		return err
	}
	targets := 0
	for _, target := range []string{s.Workflow, s.URL, s.Session} {
		if target != "" {
			targets++
		}
	}
	switch {
	case targets != 1:
		return fmt.Errorf("%w: subscription %q: exactly one of Workflow, URL and Session is set", ErrInvalid, s.ID)
	case s.Workflow != "":
		return ValidateName(s.Workflow)
	case s.Session != "":
		return valid.ID("session", s.Session)
	}
	return validateURL(s.URL)
}

// validateURL takes what a receiver may have as its address. A URL is kept as it is, so it holds no password.
func validateURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || valid.Text("URL", text, maxURL) != nil:
		return fmt.Errorf("%w: URL %.100q", ErrInvalid, text)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return fmt.Errorf("%w: URL %.100q: it begins with http:// or https://, and a host", ErrInvalid, text)
	case u.User != nil, u.Fragment != "":
		return fmt.Errorf("%w: URL of %q: it has no user and no fragment", ErrInvalid, u.Host)
	}
	return nil
}

// ValidateSubscription checks the id of a subscription.
func ValidateSubscription(id string) error {
	if !subscriptionID.MatchString(id) {
		return fmt.Errorf("%w: subscription %.70q: an id is 1 to 64 of letters, digits, '.', '_' and '-'",
			ErrInvalid, id)
	}
	return nil
}

// ValidatePublish checks the arguments of Publish.
func ValidatePublish(topic, id string, message json.RawMessage) error {
	if !messageID.MatchString(id) {
		return fmt.Errorf("%w: message %.70q: an id is 1 to 256 visible characters of ASCII", ErrInvalid, id)
	}
	return cmp.Or(segments("topic", topic), valid.Document("message", message, MaxMessage))
}

// segments checks a topic, or a pattern, which may have other segments too.
func segments(what, text string, others ...string) error {
	all := strings.Split(text, ".")
	ok := len(text) <= MaxTopic && len(all) <= maxSegments
	for _, s := range all {
		ok = ok && (segment.MatchString(s) || len(others) > 0 && (s == others[0] || s == others[1]))
	}
	if ok {
		return nil
	}
	wild := ""
	if len(others) > 0 {
		wild = ", or are * or #"
	}
	return fmt.Errorf("%w: %s %.100q: its segments are of letters, digits, '_' and '-'%s. Dots separate them. "+
		"%d bytes and %d segments are the most", ErrInvalid, what, text, wild, MaxTopic, maxSegments)
}

// fits reports whether a pattern names a topic.
func fits(pattern, topic string) bool {
	p, t := strings.Split(pattern, "."), strings.Split(topic, ".")
	star, from := -1, 0 // the last # of p, and the first segment behind what it takes
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == "#":
			star, from = i, j
			i++
		case i < len(p) && (p[i] == "*" || p[i] == t[j]):
			i++
			j++
		case star >= 0: // the # takes one segment more
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == "#" {
		i++
	}
	return i == len(p)
}
