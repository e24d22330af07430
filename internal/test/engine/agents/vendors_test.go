package agents_test

import (
	"net/http/httptest"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/anthropic"
	"github.com/holdfast-go/holdfast/models/openai"
	"github.com/holdfast-go/holdfast/models/openai/responses"
)

// A vendor has an API, and a model that asks it.
type vendor struct {
	wire  modeltest.Wire
	model func(url string, p models.Prices) (agent.Model, error)
}

var vendors = map[string]vendor{
	"openai": {modeltest.Chat, func(url string, p models.Prices) (agent.Model, error) {
		return openai.New("m", &openai.Options{BaseURL: url, Key: "k", Prices: p})
	}},
	"responses": {modeltest.Responses, func(url string, p models.Prices) (agent.Model, error) {
		return responses.New("m", &responses.Options{BaseURL: url, Key: "k", Prices: p})
	}},
	"anthropic": {modeltest.Messages, func(url string, p models.Prices) (agent.Model, error) {
		return anthropic.New("m", &anthropic.Options{BaseURL: url, Key: "k", Prices: p})
	}},
}

// asked returns a model that asks m through the API of the vendor, on loopback. The server lasts as long as its
// process.
func (p *play) asked(m agent.Model) agent.Model {
	if p.Vendor == "" {
		return m
	}
	v := vendors[p.Vendor]
	server := httptest.NewServer(v.wire.Serve(m))
	asked, err := v.model(server.URL, models.Prices{"m": {Input: 250_000}})
	if err != nil {
		panic(err)
	}
	return asked
}

// The kills of a turn and of a family through the model of each vendor: what is lost, asked and said is the same. The
// vendors and the sites share the points. With HOLDFAST_SOAK=1 each of them plays all points.
func TestKillEverywhereOfVendors(t *testing.T) {
	for where, place := range []string{"sqlite", "postgres"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			s := sites[place](t)
			for number, name := range []string{"openai", "responses", "anthropic"} {
				for _, scene := range []string{"turn", "family"} {
					t.Run(name+" "+scene, func(t *testing.T) {
						t.Parallel()
						killEverywhere(t, s, scene, 2*number+where, name)
					})
				}
			}
		})
	}
}
