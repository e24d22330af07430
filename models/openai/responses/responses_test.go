package responses_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/openai/responses"
)

func newModel(model, url, key string, p models.Prices) (agent.Model, error) {
	return responses.New(model, &responses.Options{BaseURL: url, Key: key, Prices: p})
}

func TestModel(t *testing.T) {
	modeltest.Run(t, modeltest.API{Wire: modeltest.Responses, New: newModel})
}

func TestModelConvicts(t *testing.T) {
	modeltest.Convict(t, modeltest.API{Wire: modeltest.Responses, New: newModel})
}
