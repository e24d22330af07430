package orchestrator

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/jsontype"
)

// Lenient is a Migrate for fields that were removed on purpose: it decodes the state, and drops the members that S does
// not have. If S cannot hold a member, because a field has another type, the error is a *DriftError.
//
// Lenient also drops the members that a later definition has added. If such a definition may be deployed beside this
// one, give the states from before the removal another Version, use Lenient for that Version, and Strict for others.
func Lenient[S any](_ context.Context, cp checkpoint.Checkpoint) (S, error) {
	state, err := decode[S](cp.State)
	if err != nil && !panicked(err) {
		err = &DriftError{Saved: cp.Signature, Err: err}
	}
	return state, err
}

// Strict decodes a state as an orchestrator without Migrate does. If something would be lost, the error is a
// *DriftError: the row is left to another process. It is for the versions that a Migrate does not know, because a later
// definition wrote them. Give it the arguments of Migrate.
//
// If a run in flight has an intent that the definition of this process does not have, or if something would be lost of
// the finished branches of its fan-out, Strict returns a *DriftError too.
func Strict[S any](ctx context.Context, cp checkpoint.Checkpoint) (S, error) {
	m, _ := ctx.Value(migrationKey{}).(migration)
	d := identity{signature: m.current, members: jsontype.MembersOf(reflect.TypeFor[S]())}
	state, err := decode[S](cp.State)
	if panicked(err) {
		return state, err
	}
	drift := d.lost(cp.State, cp.Signature, err).and(lostOf[S](&d, m.states, cp.Signature))
	if len(m.strangers) > 0 {
		drift = drift.and(&DriftError{Intents: m.strangers, Saved: cp.Signature, Current: m.current})
	}
	if drift != nil {
		var none S
		return none, drift
	}
	return state, nil
}

// lostOf returns what would be lost of the states of a fan-out.
func lostOf[S any](d *identity, states []json.RawMessage, signature string) (drift *DriftError) {
	for _, state := range states {
		if _, err := decode[S](state); !panicked(err) {
			drift = drift.and(d.lost(state, signature, err))
		}
	}
	return drift
}

// migrationKey is the key of a migration in the context of Migrate.
type migrationKey struct{}

// A migration tells Strict what a checkpoint does not.
type migration struct {
	current   string            // the signature of the definition
	strangers []string          // the intents of the run that the definition does not have
	states    []json.RawMessage // of the fan-out of the run
}
