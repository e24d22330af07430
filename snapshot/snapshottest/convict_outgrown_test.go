package snapshottest_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// These stores judge a stored run by its size.
func TestSuiteConvictsOutgrown(t *testing.T) {
	for name, judges := range map[string]string{
		"": "", "a listing judges": "Runs", "Begin judges": "Begin", "Adopt judges": "Adopt", "Save judges": "Save",
		"Delete judges": "Delete",
	} {
		s := &outgrown{Memory: new(snapshot.Memory), judges: judges}
		if err := snapshottest.OutgrownViolation(t.Context(), s); (err == nil) != (judges == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An outgrown store shows every run with a payload that no store takes now. One of its methods fails on such a payload.
type outgrown struct {
	*snapshot.Memory
	judges string
	grown  json.RawMessage
}

func (o *outgrown) Damage(context.Context, snapshot.Key) error {
	o.grown = json.RawMessage(`[` + strings.Repeat(`{},`, 400_000) + `{}]`)
	return nil
}

// shown returns r as it is stored, and the verdict of a method on it.
func (o *outgrown) shown(method string, r snapshot.Run, err error) (snapshot.Run, error) {
	if err != nil || o.grown == nil {
		return r, err
	}
	r.Payload = o.grown
	if method == o.judges {
		err = r.Validate()
	}
	return r, err
}

// stored returns the verdict of a method on the stored run.
func (o *outgrown) stored(ctx context.Context, method string, k snapshot.Key) error {
	r := find(ctx, o.Memory, k)
	if r == nil {
		return nil
	}
	_, err := o.shown(method, *r, nil)
	return err
}

func (o *outgrown) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range o.Memory.Runs(ctx, q) {
			if !yield(o.shown("Runs", r, err)) {
				return
			}
		}
	}
}

func (o *outgrown) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := o.Memory.Begin(ctx, r)
	if found != nil {
		*found, err = o.shown("Begin", *found, err)
	}
	return found, err
}

func (o *outgrown) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	r, err := o.Memory.Adopt(ctx, k, f, most)
	return o.shown("Adopt", r, err)
}

func (o *outgrown) Save(ctx context.Context, r snapshot.Run) error {
	if err := o.stored(ctx, "Save", r.Key); err != nil {
		return err
	}
	return o.Memory.Save(ctx, r)
}

func (o *outgrown) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := o.stored(ctx, "Delete", k); err != nil {
		return err
	}
	return o.Memory.Delete(ctx, k, id, f)
}
