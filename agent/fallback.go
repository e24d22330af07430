package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Fallback returns a Model that asks the next model if one fails, whatever the error is: a model that takes less, or
// another vendor, may still answer. After a Stop, or if the turn has no time left, it asks no other.
//
// As Definition.Model, a Fallback is within the retries: one attempt asks each model once, in this order, and the
// pauses are between the attempts. A model whose error says that another attempt cannot help is left out of them. Each
// model has ReplyTimeout for itself, and before each one MaxCost is looked at. What a failed model has said is void for
// front ends. The error names the errors of all models.
//
// Within a Model of your own it does the same, but for these: it has the ReplyTimeout of one call, and if a model fails
// after it has begun to speak, it asks no other, since it cannot take the words back. The agent asks again then.
func Fallback(models ...Model) Model {
	var all fallback
	for _, m := range models {
		all = append(all, modelsOf(m)...)
	}
	return all
}

type fallback []Model

// modelsOf returns the models that a model consists of.
func modelsOf(m Model) []Model {
	if all, ok := m.(fallback); ok {
		return all
	}
	return []Model{m}
}

func usable(m Model) bool {
	all := modelsOf(m)
	return len(all) > 0 && !slices.Contains(all, nil)
}

// Reply implements Model.
func (f fallback) Reply(ctx context.Context, r Request, token func(string)) (reply Reply, err error) {
	said := speech{emit: token, most: 1}
	all := make([]error, len(f))
	var used orchestrator.Usage
	for i, m := range f {
		next := said.begin()
		err = protect(func() (err error) { reply, err = m.Reply(ctx, r, next); return err })
		said.end()
		used = orchestrator.Usage{
			Input: used.Input + reply.Usage.Input, Output: used.Output + reply.Usage.Output,
			Cost: used.Cost + reply.Usage.Cost, Model: reply.Usage.Model, Provider: reply.Usage.Provider,
		}
		reply.Usage = used
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		if all[i] = logtext.Private(err); said.forget() {
			break
		}
	}
	return reply, together(all)
}

// failures are the errors of several models.
type failures struct{ errs []error }

// together returns the errors of the models that have failed, or nil if none has.
func together(models []error) error {
	var named []error
	for i, err := range models {
		if err != nil {
			named = append(named, fmt.Errorf("model %d: %w", i+1, err))
		}
	}
	switch {
	case len(named) == 0:
		return nil
	case len(models) == 1:
		return models[0]
	}
	return &failures{named}
}

// Error names the models and their errors.
func (f *failures) Error() string {
	var texts []string
	for _, err := range f.errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors.
func (f *failures) Unwrap() []error { return slices.Clone(f.errs) }
