package openai_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/openai"
)

func newModel(model, url, key string, p models.Prices) (agent.Model, error) {
	return openai.New(model, &openai.Options{BaseURL: url, Key: key, Prices: p})
}

func TestModel(t *testing.T) {
	modeltest.Run(t, modeltest.API{Wire: modeltest.Chat, New: newModel})
}

func TestReadmeProgram(t *testing.T) { modeltest.Readme(t, modeltest.Responses) }
