package models

import (
	"fmt"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Price is what a million tokens of a model cost, in the currency of Definition.MaxCost. Cached is for tokens that
// the vendor has read from its cache, and Written for those that it has written to it. Cached or Written 0 costs Input.
type Price struct{ Input, Output, Cached, Written float64 }

// Prices are the prices of models, by their names. They are the program's: a table in a library would be wrong soon.
type Prices map[string]Price

// Tokens are what one call of a model has used. Input has all that went in, those of the cache too.
type Tokens struct{ Input, Output, Cached, Written int }

// Usage returns what a call of the model has used and cost.
func (p Prices) Usage(model string, t Tokens) orchestrator.Usage {
	price := p[model]
	plain := t.Input - t.Cached - t.Written
	cost := float64(plain)*price.Input + float64(t.Output)*price.Output
	cost += float64(t.Cached) * or(price.Cached, price.Input)
	cost += float64(t.Written) * or(price.Written, price.Input)
	return orchestrator.Usage{Input: t.Input, Output: t.Output, Cost: cost / 1e6, Model: model}
}

// Check returns an error if there are prices, but none of the model: its calls would count as free, and MaxCost would
// limit nothing. A price that is negative or no number is refused too.
func (p Prices) Check(model string) error {
	if len(p) == 0 {
		return nil
	}
	price, ok := p[model]
	if !ok {
		return fmt.Errorf("Prices has no price of %q", model)
	}
	for _, f := range []float64{price.Input, price.Output, price.Cached, price.Written} {
		if !(f >= 0 && f <= 1e12) {
			return fmt.Errorf("Prices of %q: %v cannot be a price", model, f)
		}
	}
	return nil
}

func or(a, b float64) float64 {
	if a != 0 {
		return a
	}
	return b
}
