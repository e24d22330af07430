package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// OnceOptions say what identifies an effect, and what happens if its outcome is not known.
type OnceOptions[T any] struct {
	// Class says what a recovery may do. The zero value is ledger.Ask.
	Class ledger.Class

	// Each tells calls of one name in one function apart: an item of a loop.
	Each string

	// Key names the effect in the world: it happens once ever for this orchestrator, name and Key, in any session
	// and run. An order id is a Key.
	Key string

	// KeepOnRetry gives the recorded result of a Pure function back to a retry by decision too, as to a crash: see
	// Once.
	KeepOnRetry bool

	// Usage says what a value has cost. It counts towards the turn once, also if the value comes again: after a crash,
	// or in another attempt of the function. Without it, call AddUsage after Once: then a value that comes again in one
	// process counts again.
	Usage func(value T) Usage

	// Args are what the effect is called with, as JSON. A replay with other values is ledger.ErrChanged, except of
	// Pure.
	Args any

	// Verify asks the other side whether the effect with a key happened. It is for ledger.Verifiable.
	Verify func(ctx context.Context, key string) (value T, landed bool, err error)

	// Settles is how long the other side may take until Verify sees the effect. "Not landed" counts only if the last
	// attempt was issued longer ago than that, by the clock of the ledger. Until then the turn waits, and asks again. 0
	// means as long as the last attempt has run, and ten seconds more.
	Settles time.Duration
}

// Once does something to the world once: it runs fn, or returns what fn returned before. It needs Options.Ledger, and
// is for the intents, Route, Evaluate and Then. In Begin it is refused, because the turn is not recorded yet. The key
// that fn gets names the effect to the other side. It is the same each time.
//
// Without Key an effect is identified by its place: the run, the iteration, the function with its item, the name and
// Each. A second call for one place in one attempt is ledger.ErrRepeated.
//
// If fn returns an error, panics, or its process dies, the outcome is not known, and the class decides. An error that
// [ledger.NotDone] marks says that this attempt did nothing: then fn runs again at the next attempt, unless an attempt
// before may have happened. While the outcome is not known, Once returns an *[InDoubtError]. Return it from the
// function, so that the turn waits. If the function returns nil instead, the turn settles, and the effect stays open.
//
// A function that is resumed must ask for the effects again that an earlier attempt has left open, or that a person has
// answered for. Otherwise its turn does not settle, unless CallOptions.Force is set.
//
// A function of class [ledger.Pure] runs again after a crash, unless its result is recorded. Its arguments are not
// compared: what decides its result belongs into Each. If the function fails, nothing is recorded, and the same attempt
// may name the effect again. A retry by decision runs it again, unless KeepOnRetry or Key is set: an attempt after the
// bot has failed, by Intent.Retry, by a drain, or because the same request id has come again. So what a model has said
// once is not the end of an input.
//
// The value is what the ledger has, decoded from JSON. What a model has cost belongs into that value: OnceOptions.Usage
// counts it.
//
// In a Turn made by hand, Once runs fn.
func Once[T, S any](
	ctx context.Context, t *Turn[S], name string, fn func(ctx context.Context, key string) (T, error),
	o *OnceOptions[T],
) (value T, err error) {
	if o == nil {
		o = new(OnceOptions[T])
	}
	c := onceCall{run: fetching(fn), settles: o.Settles, keep: o.KeepOnRetry}
	if o.Verify != nil {
		c.verify = func(ctx context.Context, key string) (raw json.RawMessage, landed bool, err error) {
			v, landed, err := o.Verify(ctx, key)
			if err == nil && landed {
				raw, err = marshalled("what Verify returned", v)
			}
			return raw, landed, err
		}
	}
	if c.effect, err = o.effect(name); err != nil {
		return value, err
	}
	if fn == nil {
		return value, fmt.Errorf("%w: effect %q without a function", ledger.ErrInvalid, name)
	}
	if t.line == nil {
		if err := byHand(&c.effect); err != nil {
			return value, err
		}
		value, err = fn(ctx, c.effect.ID)
		if err == nil && o.Usage != nil {
			t.AddUsage(o.Usage(value))
		}
		return value, err
	}
	if o.Usage != nil {
		c.usage = usageIn(o.Usage)
	}
	raw, err := t.line.world.once(ctx, t.line, c)
	if err != nil {
		return value, err
	}
	if raw == nil { // a person has said that it happened, and no more
		return value, nil
	}
	if err := protect(func() error { return json.Unmarshal(raw, &value) }); err != nil {
		return value, logtext.Private(fmt.Errorf("the recorded result of %q: %w", name, logtext.Private(err)))
	}
	return value, nil
}

// EffectOf returns the effect that Once would issue. It is for postgres.Once and sqlite.Once, which do database work
// and note the effect in one transaction. The place of the effect is taken by EffectOf, as it is by Once. For a Turn
// made by hand, the run has the id "by hand".
func EffectOf[T, S any](t *Turn[S], name string, o *OnceOptions[T]) (ledger.Effect, error) {
	if o == nil {
		o = new(OnceOptions[T])
	}
	e, err := o.effect(name)
	if err != nil {
		return ledger.Effect{}, err
	}
	if t.line == nil {
		err := byHand(&e)
		return e, err
	}
	return t.line.world.effectFor(t.line, onceCall{effect: e, keep: o.KeepOnRetry})
}

// Ahead announces an effect of the next iteration: intent will call Once with this name and these options. If the
// snapshot store and the ledger are one database, the save before that iteration issues the effect, so that it costs a
// commit less. Otherwise Ahead does nothing. It is for intents, Evaluate and Then, and intent must run for no items.
//
// An effect that is not named then has not happened, and is recorded so. If the process dies between the save and
// Once, the effect is in doubt. So announce what is called at once, and not what waits for a person, or for another
// call.
func Ahead[T, S any](t *Turn[S], intent, name string, o *OnceOptions[T]) error {
	if o == nil {
		o = new(OnceOptions[T])
	}
	e, err := o.effect(name)
	if err != nil || t.line == nil {
		return err
	}
	return t.line.world.ahead(t.line, intent, onceCall{effect: e})
}

// effect returns the effect as far as the caller names it.
func (o *OnceOptions[T]) effect(name string) (ledger.Effect, error) {
	e := ledger.Effect{Name: name, Each: o.Each, Key: o.Key, Class: o.Class}
	switch {
	case o.Class == ledger.Verifiable && o.Verify == nil:
		return e, fmt.Errorf("%w: effect %q is Verifiable without Verify", ledger.ErrInvalid, name)
	case o.Settles < 0:
		return e, fmt.Errorf("%w: Settles of effect %q is negative", ledger.ErrInvalid, name)
	}
	if o.Args == nil {
		return e, nil
	}
	raw, err := marshalled("arguments", o.Args)
	e.Args = raw
	return e, err
}

// byHand completes an effect of a Turn made by hand.
func byHand(e *ledger.Effect) (err error) {
	e.Orchestrator, e.Session, e.RunID = "by hand", "by hand", "by hand"
	e.ID, e.Fence = digest("by hand", e.Name, e.Each, e.Key)[:idLen], lock.Fence{Epoch: 1, Nonce: "by hand"}
	if err := e.ValidateIssue(); err != nil {
		return err
	}
	e.ArgsSum, err = (&Effects{}).sum(e.Args)
	return err
}

// usageIn returns usage for a value as JSON. Without a value it is none: a person has said that the effect happened.
func usageIn[T any](usage func(T) Usage) func(json.RawMessage) Usage {
	return func(raw json.RawMessage) (u Usage) {
		var value T
		if json.Unmarshal(raw, &value) == nil {
			u = usage(value)
		}
		return u
	}
}

// marshalled returns the JSON of a value of the program.
func marshalled(what string, v any) (json.RawMessage, error) {
	raw, err := encode(&v)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ledger.ErrInvalid, what, err)
	}
	return raw, nil
}

// fetching returns fn with its value as JSON. The error of a value that is no JSON is a *resultError.
func fetching[T any](
	fn func(ctx context.Context, key string) (T, error),
) func(ctx context.Context, key string) (json.RawMessage, error) {
	return func(ctx context.Context, key string) (json.RawMessage, error) {
		v, err := fn(ctx, key)
		if err != nil {
			return nil, err
		}
		raw, err := marshalled("result", v)
		if err != nil {
			return nil, &resultError{err}
		}
		return raw, nil
	}
}
