package anthropic

import (
	"errors"
	"os"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/models"
)

// Options configure a [Model]. nil is the zero value.
type Options struct {
	// Key is the API key. "" is ANTHROPIC_API_KEY, which only goes to Anthropic, or to ANTHROPIC_BASE_URL if that is
	// set. BaseURL is another server: it gets Key, or no key.
	Key, BaseURL string

	// Prices say what calls cost. nil: they are free, and Definition.MaxCost limits nothing.
	Prices models.Prices

	// Params are in each request: thinking, the effort, the longest reply. MaxTokens 0 means 8,192, or 8,192 more than
	// the budget for thinking. Messages, System, Tools and Model are the agent's, and so is ToolChoice if the agent has
	// a Finish.
	Params anthropic.MessageNewParams

	// NoCache asks for no prompt cache. Without it the instructions and the tools are cached, and what was said so far:
	// the next request reads it at a tenth of the price, and writing it costs a quarter more. CacheHour caches for an
	// hour instead of five minutes.
	NoCache, CacheHour bool

	// Loose asks for no strict tools. Without it, in an agent with a Finish the API is told to hold the model to each
	// schema that allows it.
	Loose bool

	// Request is for the client, after all that New sets: a header, a middleware, another HTTP client or credential.
	// Attempts are the agent's.
	Request []option.RequestOption
}

// A Model asks a model by the messages API. It may be used concurrently.
type Model struct {
	vendor   modelapi.Vendor
	o        Options
	messages anthropic.MessageService
}

// rules are those of tools.
var rules = modelapi.Rules{Unions: []string{"oneOf", "anyOf", "allOf"}}

// mostTokens is how long a reply may be by default, in tokens.
const mostTokens = 8192

// New returns a Model of that name, or an error that names what is missing.
func New(model string, o *Options) (*Model, error) {
	m := &Model{vendor: modelapi.Vendor{Name: "anthropic", Model: model, Key: "Options.Key"}}
	if o != nil {
		m.o = *o
	}
	all, err := m.client()
	p := &m.o.Params
	if p.Messages != nil || p.System != nil || p.Tools != nil || p.Model != "" {
		err = errors.Join(err, errors.New("anthropic: Messages, System, Tools and Model of Params are the agent's"))
	}
	if model == "" {
		err = errors.Join(err, errors.New("anthropic: the model has no name"))
	}
	if priced := m.o.Prices.Check(model); priced != nil {
		err = errors.Join(err, errors.New("anthropic: "+priced.Error()))
	}
	if err != nil {
		return nil, err
	}
	if p.MaxTokens == 0 {
		p.MaxTokens = mostTokens
		if budget := p.Thinking.GetBudgetTokens(); budget != nil {
			p.MaxTokens += *budget
		}
	}
	m.messages = anthropic.NewMessageService(all...)
	return m, nil
}

// client returns the options of the client. Our middleware comes first: what the program has sees the responses as they
// are.
func (m *Model) client() (all []option.RequestOption, err error) {
	all = []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithMaxRetries(0), option.WithMiddleware(modelapi.Refused),
	}
	key, url, token := m.o.Key, m.o.BaseURL, ""
	if url == "" {
		url = os.Getenv("ANTHROPIC_BASE_URL")
		if key == "" {
			m.vendor.Key = "ANTHROPIC_API_KEY"
			key, token = os.Getenv(m.vendor.Key), os.Getenv("ANTHROPIC_AUTH_TOKEN")
		}
	}
	if url != "" {
		all = append(all, option.WithBaseURL(url))
	}
	switch {
	case key != "":
		all = append(all, option.WithAPIKey(key))
	case token != "":
		m.vendor.Key = "ANTHROPIC_AUTH_TOKEN"
		all = append(all, option.WithAuthToken(token))
	case url == "" && len(m.o.Request) == 0:
		return nil, errors.New("anthropic: ANTHROPIC_API_KEY is not set")
	}
	return append(all, m.o.Request...), nil
}

// CheckTools implements agent.ToolChecker.
func (m *Model) CheckTools(tools []agent.Tool) error { return rules.Check(tools) }
