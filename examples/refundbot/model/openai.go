package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/retry"
)

// OpenAIOptions say which model is asked, and where.
type OpenAIOptions struct {
	// Key is the API key.
	Key string

	// BaseURL is where the API is. "" means OpenAI's own. Other servers speak the same protocol.
	BaseURL string

	// Model is the name of the model. "" means DefaultModel.
	Model string

	// Input and Output are the prices of a million tokens, for Usage.Cost.
	Input, Output float64

	// Client sends the requests. nil means http.DefaultClient.
	Client *http.Client
}

// DefaultModel is the model of an OpenAI that names none.
const DefaultModel = "gpt-5.4-mini"

const openAIURL = "https://api.openai.com/v1"

// OpenAI is a Model that asks a server over the chat-completions protocol of OpenAI.
//
// Classify and Compose belong to a turn: their ctx comes from oncehttp.With, and their replies are recorded, if they
// are of use. Summarize is for a compaction too: without a turn it is not recorded.
//
// OpenAI does not try again. The intent that asks has a Retry, and an error that another attempt cannot mend is marked
// with retry.Permanent.
type OpenAI struct {
	url     string
	client  *http.Client
	options OpenAIOptions
}

// NewOpenAI returns a model. It sends nothing. It returns an error if the options cannot be right.
func NewOpenAI(o OpenAIOptions) (*OpenAI, error) {
	o.BaseURL, o.Model = cmp.Or(o.BaseURL, openAIURL), cmp.Or(o.Model, DefaultModel)
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.Key == "" {
		return nil, errors.New("model: no API key")
	}
	if u, err := url.Parse(o.BaseURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("model: the base URL of the API is no URL of http or https")
	}
	client := *o.Client
	client.Transport = oncehttp.New(&oncehttp.Options{Keep: usable}).Transport(client.Transport)
	return &OpenAI{strings.TrimSuffix(o.BaseURL, "/") + "/chat/completions", &client, o}, nil
}

// FromEnv returns the OpenAI model that OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL describe; nil if there is no
// key. getenv is os.Getenv.
func FromEnv(getenv func(string) string) (*OpenAI, error) {
	key := getenv("OPENAI_API_KEY")
	if key == "" {
		return nil, nil
	}
	return NewOpenAI(OpenAIOptions{Key: key, BaseURL: getenv("OPENAI_BASE_URL"), Model: getenv("OPENAI_MODEL")})
}

// Classify asks for JSON that fits a schema.
func (m *OpenAI) Classify(ctx context.Context, history []message.Message, text string) (Intent, Usage, error) {
	r := m.request(classifyPrompt, history, text)
	r.Format = &format{"json_schema", schema{Name: "intent", Strict: true, Schema: json.RawMessage(intentSchema)}}
	res, err := m.ask(ctx, r)
	if err != nil {
		return Intent{}, Usage{}, failure(err)
	}
	in, err := intentOf(res)
	return in, m.usage(res.Model, res.Usage), err
}

// intentOf reads the reply to Classify.
func intentOf(res completion) (in Intent, err error) {
	if len(res.Choices) == 0 {
		return in, fmt.Errorf("%w: it is empty", ErrReply)
	}
	c := res.Choices[0]
	if err := ended(c.Finish, c.Message.Refusal); err != nil {
		return in, err
	}
	d := json.NewDecoder(strings.NewReader(c.Message.Content))
	d.DisallowUnknownFields()
	if d.Decode(&in) != nil || d.More() {
		return Intent{}, fmt.Errorf("%w: it is not the JSON that was asked for", ErrReply)
	}
	named, also := asNamed(in.Order), ordersIn(strings.Join(in.Also, " "))
	switch {
	case in.Category != Refund && in.Category != Shipping && in.Category != Other, in.Yes && in.No,
		in.Order != "" && named == "", len(also) < len(in.Also):
		return Intent{}, fmt.Errorf("%w: it contradicts its schema", ErrReply)
	}
	in.Order, in.Also = named, also
	return in, nil
}

// asNamed returns an order as the shop writes it, or a number without its letter; "" if it is neither.
func asNamed(order string) string { return cmp.Or(namedOrder(order), numberIn(order)) }

// Compose streams the reply.
func (m *OpenAI) Compose(ctx context.Context, p Prompt, emit func(piece string)) (string, Usage, error) {
	return m.stream(ctx, m.request(composePrompt(p), p.History, p.Text), emit)
}

// Summarize streams the summary too: so all JSON that is recorded is an Intent.
func (m *OpenAI) Summarize(ctx context.Context, messages []message.Message) (string, Usage, error) {
	if !oncehttp.Recorded(ctx) {
		ctx = oncehttp.Unrecorded(ctx)
	}
	return m.stream(ctx, m.request(summarizePrompt, messages, summarizeNow), nil)
}

// stream asks for a text, and emits its pieces.
func (m *OpenAI) stream(ctx context.Context, r request, emit func(string)) (string, Usage, error) {
	r.Stream, r.Options = true, &streaming{Usage: true}
	body, err := m.post(ctx, r)
	if err != nil {
		return "", Usage{}, failure(err)
	}
	var used Usage
	var a answer
	err = chunks(body, func(c completion) {
		if c.Usage != (tokens{}) {
			used = m.usage(c.Model, c.Usage)
		}
		if piece := a.add(c); piece != "" && emit != nil {
			emit(piece)
		}
	})
	if err = cmp.Or(err, body.Close()); err != nil { // Close says if the reply could not be recorded
		return "", used, failure(err)
	}
	return a.text.String(), used, a.err()
}

// An answer collects the chunks of a stream.
type answer struct {
	text            strings.Builder
	finish, refusal string
}

// add takes a chunk. It returns the piece of the text in it.
func (a *answer) add(chunk completion) (piece string) {
	for _, c := range chunk.Choices {
		if c.Index != 0 {
			continue
		}
		a.finish = cmp.Or(c.Finish, a.finish)
		a.refusal += c.Delta.Refusal
		piece += c.Delta.Content
	}
	a.text.WriteString(piece)
	return piece
}

func (a *answer) err() error {
	if err := ended(a.finish, a.refusal); err != nil {
		return err
	}
	if strings.TrimSpace(a.text.String()) == "" {
		return fmt.Errorf("%w: it is empty", ErrReply)
	}
	return nil
}

// ended returns an error unless the model has said all that it wanted to say.
func ended(finish, refusal string) error {
	switch {
	case refusal != "", finish == "content_filter":
		return retry.Permanent(ErrRefused)
	case finish == "":
		return fmt.Errorf("%w: it is cut off", ErrReply)
	case finish != "stop":
		return fmt.Errorf("%w: it ended for %q", ErrReply, finish)
	}
	return nil
}

// request returns a request.
func (m *OpenAI) request(system string, history []message.Message, text string) request {
	all := []statement{{message.RoleSystem, system}}
	for _, h := range history {
		role := h.Role
		if role != message.RoleAssistant && role != message.RoleSystem {
			role = message.RoleUser
		}
		if text := said(h); text != "" {
			all = append(all, statement{role, text})
		}
	}
	return request{Model: m.options.Model, Messages: append(all, statement{message.RoleUser, text})}
}

func (m *OpenAI) usage(name string, u tokens) Usage {
	return Usage{
		Input: u.Prompt, Output: u.Completion, Model: cmp.Or(name, m.options.Model),
		Cost: (float64(u.Prompt)*m.options.Input + float64(u.Completion)*m.options.Output) / 1e6,
	}
}

// failure marks an error of the API with retry.Permanent if it comes again with each attempt.
func failure(err error) error {
	e, ok := errors.AsType[*StatusError](err)
	if !ok {
		return err
	}
	switch {
	case e.Code == "insufficient_quota": // also 429, but it does not pass
	case e.Status >= 500, e.Status == http.StatusTooManyRequests, e.Status == http.StatusRequestTimeout,
		e.Status == http.StatusConflict:
		return err
	}
	return retry.Permanent(err)
}
