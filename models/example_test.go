package models_test

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/retry"
)

// Tokens that the vendor has read from its cache cost less than others, and those that it has written to it cost more.
func ExamplePrices() {
	prices := models.Prices{"some-model": {Input: 3, Output: 15, Cached: 0.3, Written: 3.75}}
	used := prices.Usage("some-model", models.Tokens{Input: 10_000, Output: 500, Cached: 8000, Written: 1000})
	fmt.Printf("%.5f\n", used.Cost)
	fmt.Println(prices.Check("some-other-model"))
	// Output:
	// 0.01665
	// Prices has no price of "some-other-model"
}

// A program may want to know why a model has failed for good.
func ExampleError() {
	err := fmt.Errorf("agent: the model: %w", retry.Permanent(&models.Error{
		Vendor: "openai", Model: "gpt-0", Status: 404, Code: "model_not_found", Message: "no such model",
		Key: "OPENAI_API_KEY",
	}))
	if e, ok := errors.AsType[*models.Error](err); ok {
		fmt.Println(e.Status, e.Code)
	}
	fmt.Println(err)
	// Output:
	// 404 model_not_found
	// agent: the model: openai: there is no model "gpt-0" for the key in OPENAI_API_KEY (404 model_not_found): no such model
}
