package openai

import (
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/openai/internal/connect"
)

// Options configure a [Model]. nil is the zero value.
type Options struct {
	// Key is the API key. "" is OPENAI_API_KEY, which only goes to OpenAI, or to OPENAI_BASE_URL if that is set.
	// BaseURL is another server that is compatible: it gets Key, or no key.
	Key, BaseURL string

	// Prices say what calls cost. nil: they are free, and Definition.MaxCost limits nothing.
	Prices models.Prices

	// Params are in each request: the temperature, the effort, the longest reply. Messages, Tools, Model and N are the
	// agent's, and so is ToolChoice if the agent has a Finish.
	Params openai.ChatCompletionNewParams

	// Loose asks for no strict tools, for servers that refuse the word. Without it, in an agent with a Finish the API
	// is told to hold the model to each schema that allows it.
	Loose bool

	// Request is for the client, after all that New sets: a header, a middleware, another HTTP client. Attempts are the
	// agent's.
	Request []option.RequestOption
}

// A Model asks a model by chat completions. It may be used concurrently.
type Model struct {
	vendor modelapi.Vendor
	o      Options
	chat   openai.ChatCompletionService
}

// New returns a Model of that name, or an error that names what is missing.
func New(model string, o *Options) (*Model, error) {
	m := &Model{}
	if o != nil {
		m.o = *o
	}
	all, vendor, err := connect.To(model, m.o.Key, m.o.BaseURL, m.o.Prices, m.o.Request)
	if p := m.o.Params; p.Messages != nil || p.Tools != nil || p.Model != "" || p.N.Valid() {
		err = errors.Join(err, errors.New("openai: Messages, Tools, Model and N of Params are the agent's"))
	}
	if err != nil {
		return nil, err
	}
	m.vendor, m.chat = vendor, openai.NewChatCompletionService(all...)
	return m, nil
}

// CheckTools implements agent.ToolChecker.
func (m *Model) CheckTools(tools []agent.Tool) error { return connect.Rules.Check(tools) }
