package faulttest

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"
)

// convictHistories fails if all histories of a broken store are legal.
func convictHistories[S any](
	t *testing.T, spec porcupine.Model, record func(context.Context, S, uint64) []porcupine.Operation,
	broken map[string]func() S,
) {
	for name, broken := range broken {
		t.Run(name, func(t *testing.T) {
			s := broken()
			for seed := range uint64(3000) {
				if !porcupine.CheckOperations(spec, record(t.Context(), s, seed)) {
					return
				}
			}
			t.Error("all histories are legal")
		})
	}
}
