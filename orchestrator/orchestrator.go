package orchestrator

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// New returns an Orchestrator of d over store. An error of New names every fault of d and o at once.
func New[S any](d Definition[S], store checkpoint.Store, o *Options) (*Orchestrator[S], error) {
	if o == nil {
		o = new(Options)
	}
	faults := slices.Concat(d.faults(), o.faults(), stateFaults(reflect.TypeFor[S]()))
	if o.RequireDelivered && d.Deliver == nil {
		faults = append(faults, "RequireDelivered without Deliver")
	}
	if store == nil {
		faults = append(faults, "no checkpoint store")
	}
	if len(faults) > 0 {
		return nil, &Error{Op: "new", Err: errors.New(strings.Join(faults, "; "))}
	}
	d.Intents = maps.Clone(d.Intents)
	orch := &Orchestrator[S]{codec: codec[S]{engine: newEngine(d.identity(), store, *o), def: d}}
	if d.Respond != nil {
		orch.engine.respond = orch.respond
	}
	for _, name := range slices.Sorted(maps.Keys(d.Intents)) {
		orch.choices = append(orch.choices, Choice{name, d.Intents[name].Description})
	}
	if d.Route == nil && len(orch.choices) == 1 {
		orch.only = &storedNext{Intents: []string{orch.choices[0].Name}}
	}
	if orch.first = orch.only; d.First != "" {
		orch.first = &storedNext{Intents: []string{d.First}}
	}
	return orch, nil
}
