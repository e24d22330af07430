package orchestratortest

import (
	"context"
	"maps"
	"strconv"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// watched returns d with functions that are steps of l.
func watched[S any](l *life, d orchestrator.Definition[S]) orchestrator.Definition[S] {
	d.Intents = maps.Clone(d.Intents)
	for name, in := range d.Intents {
		if run := in.Run; run != nil {
			l.steps[name] = true
			in.Run = func(ctx context.Context, t *orchestrator.Turn[S]) error {
				step := name
				if t.ItemNumber > 0 {
					step += " item " + strconv.Itoa(t.ItemNumber)
				}
				return l.function(ctx, step, func(ctx context.Context) error { return run(ctx, t) })
			}
		}
		in.Then = returns(l, name+" Then", in.Then)
		d.Intents[name] = in
	}
	d.Route, d.Evaluate = returns(l, "Route", d.Route), returns(l, "Evaluate", d.Evaluate)
	d.Begin, d.Deliver = does(l, "Begin", d.Begin), does(l, "Deliver", d.Deliver)
	d.Migrate = returns(l, "Migrate", d.Migrate)
	if merge := d.Merge; merge != nil {
		l.steps["Merge"] = true
		d.Merge = func(base S, branches []S) (merged S, err error) {
			err = l.function(context.Background(), "Merge", func(context.Context) (err error) {
				merged, err = merge(base, branches)
				return err
			})
			return merged, err
		}
	}
	return d
}

// options returns o with functions that are steps of l.
func (l *life) options(o *orchestrator.Options) *orchestrator.Options {
	o.History = returns[string, []message.Message](l, "History", o.History)
	return o
}

// does and returns make a function a step. A nil function stays nil.
func does[T any](l *life, step string, f func(context.Context, T) error) func(context.Context, T) error {
	if f == nil {
		return nil
	}
	l.steps[step] = true
	return func(ctx context.Context, arg T) error {
		return l.function(ctx, step, func(ctx context.Context) error { return f(ctx, arg) })
	}
}

func returns[A, R any](
	l *life, step string, f func(context.Context, A) (R, error),
) func(context.Context, A) (R, error) {
	if f == nil {
		return nil
	}
	l.steps[step] = true
	return func(ctx context.Context, arg A) (result R, err error) {
		err = l.function(ctx, step, func(ctx context.Context) (err error) {
			result, err = f(ctx, arg)
			return err
		})
		return result, err
	}
}
