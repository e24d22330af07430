package checkpointtest_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
)

// These stores judge the size of a stored turn.
func TestSuiteConvictsOutgrown(t *testing.T) {
	for name, judges := range map[string]string{"": "", "Turns judges": "Turns", "Claim judges": "Claim"} {
		s := &outgrown{Memory: new(checkpoint.Memory), judges: judges}
		if err := checkpointtest.OutgrownViolation(t.Context(), s); (err == nil) != (judges == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An outgrown store shows a turn with a state that no store takes now. One of its methods fails on that turn.
type outgrown struct {
	*checkpoint.Memory
	judges string
	turn   int
	grown  json.RawMessage
}

func (o *outgrown) DamageHead(context.Context, checkpoint.Key) error { return nil }

func (o *outgrown) LoseHead(context.Context, checkpoint.Key) error { return nil }

func (o *outgrown) DamageTurn(_ context.Context, _ checkpoint.Key, turn int) error {
	o.turn, o.grown = turn, json.RawMessage(`[`+strings.Repeat(`{},`, 400_000)+`{}]`)
	return nil
}

// shown returns cp as it is stored, and the error of the method.
func (o *outgrown) shown(method string, cp checkpoint.Checkpoint, err error) (checkpoint.Checkpoint, error) {
	if err != nil || o.grown == nil || cp.Turn != o.turn {
		return cp, err
	}
	cp.State = o.grown
	if method == o.judges {
		err = cp.Validate()
	}
	return cp, err
}

func (o *outgrown) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for cp, err := range o.Memory.Turns(ctx, k, from) {
			if !yield(o.shown("Turns", cp, err)) {
				return
			}
		}
	}
}

func (o *outgrown) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := o.Memory.Claim(ctx, k, r)
	if err == nil && c.Last != nil {
		*c.Last, err = o.shown("Claim", *c.Last, nil)
	}
	return c, err
}
