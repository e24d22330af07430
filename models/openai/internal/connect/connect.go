// Package connect makes the options of a client of openai-go.
package connect

import (
	"errors"
	"net/http"
	"os"

	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/models"
)

// Rules are those of the tools of both APIs.
var Rules = modelapi.Rules{Most: 128, Unions: []string{"oneOf", "anyOf", "allOf", "enum", "not"}}

// To returns the options of a client, and the vendor for its errors. A key of the environment goes to the server that
// the environment names, or to OpenAI, and to no other. Our middleware comes first: what the program has sees the
// responses as they are.
func To(
	model, key, url string, prices models.Prices, more []option.RequestOption,
) (all []option.RequestOption, v modelapi.Vendor, err error) {
	v = modelapi.Vendor{Name: "openai", Model: model, Key: "Options.Key"}
	all = []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(http.DefaultClient), option.WithMaxRetries(0),
		option.WithMiddleware(modelapi.Refused),
	}
	if url == "" {
		url = os.Getenv("OPENAI_BASE_URL")
		if key == "" {
			v.Key = "OPENAI_API_KEY"
			key = os.Getenv(v.Key)
		}
		all = environment(all)
	}
	switch {
	case model == "":
		err = errors.New("openai: the model has no name")
	case key == "" && url == "" && len(more) == 0:
		err = errors.New("openai: OPENAI_API_KEY is not set")
	}
	if priced := prices.Check(model); priced != nil {
		err = errors.Join(err, errors.New("openai: "+priced.Error()))
	}
	if url != "" {
		all = append(all, option.WithBaseURL(url))
	}
	if key != "" {
		all = append(all, option.WithAPIKey(key))
	}
	return append(all, more...), v, err
}

// environment adds what else the environment says of the account.
func environment(all []option.RequestOption) []option.RequestOption {
	if org := os.Getenv("OPENAI_ORG_ID"); org != "" {
		all = append(all, option.WithOrganization(org))
	}
	if project := os.Getenv("OPENAI_PROJECT_ID"); project != "" {
		all = append(all, option.WithProject(project))
	}
	return all
}
