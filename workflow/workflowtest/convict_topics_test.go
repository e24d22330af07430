package workflowtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

type subscription = workflow.Subscription

func TestSuiteConvictsTopics(t *testing.T) {
	convict(t, map[string]mutant{
		"a session is forgotten":      {"subscribe", eachSubscribed(func(s *subscription) { s.Session = "" })},
		"the newest comes last":       {"subscribe", unsorted},
		"a subscription stays":        {"subscribe", func(b *broken) { b.unsubscribe = func(context.Context, string) error { return nil } }},
		"all subscriptions go":        {"subscribe", removesAll},
		"no subscription is not told": {"subscribe", toldOnce},
		"the last one wins":           {"subscribe-again", replaces},
		"the first one wins":          {"subscribe-again", ignores(workflow.ErrKeyReused)},
		"a store is never full":       {"subscribe-most", ignores(workflow.ErrInvalid)},
		"a full store knows none":     {"subscribe-most", fullForAll},
		"anything is taken":           {"subscribe-refused", ignores(workflow.ErrInvalid)},
	})
}

func eachSubscribed(change func(*subscription)) fault {
	return func(b *broken) {
		b.subscriptions = func(ctx context.Context) ([]subscription, error) {
			all, err := b.Memory.Subscriptions(ctx)
			for i := range all {
				change(&all[i])
			}
			return all, err
		}
	}
}

// unsorted has the subscriptions in the order in which they came.
func unsorted(b *broken) {
	var order []string
	b.subscribe = func(ctx context.Context, s subscription) error {
		order = append(order, s.ID)
		return b.Memory.Subscribe(ctx, s)
	}
	b.subscriptions = func(ctx context.Context) ([]subscription, error) {
		all, err := b.Memory.Subscriptions(ctx)
		slices.SortFunc(all, func(a, c subscription) int {
			return slices.Index(order, a.ID) - slices.Index(order, c.ID)
		})
		return all, err
	}
}

func removesAll(b *broken) {
	b.unsubscribe = func(ctx context.Context, _ string) error {
		all, err := b.Memory.Subscriptions(ctx)
		for _, s := range all {
			err = b.Memory.Unsubscribe(ctx, s.ID)
		}
		return err
	}
}

// toldOnce says that a subscription was not found.
func toldOnce(b *broken) {
	b.unsubscribe = func(ctx context.Context, id string) error {
		before, _ := b.Memory.Subscriptions(ctx)
		err := b.Memory.Unsubscribe(ctx, id)
		if after, _ := b.Memory.Subscriptions(ctx); err == nil && len(after) == len(before) {
			return workflow.ErrNotFound
		}
		return err
	}
}

func replaces(b *broken) {
	b.subscribe = func(ctx context.Context, s subscription) error {
		if s.Validate() == nil {
			_ = b.Memory.Unsubscribe(ctx, s.ID)
		}
		return b.Memory.Subscribe(ctx, s)
	}
}

// ignores takes what the store refuses with an error.
func ignores(target error) fault {
	return func(b *broken) {
		b.subscribe = func(ctx context.Context, s subscription) error {
			err := b.Memory.Subscribe(ctx, s)
			if errors.Is(err, target) {
				return nil
			}
			return err
		}
	}
}

func fullForAll(b *broken) {
	b.subscribe = func(ctx context.Context, s subscription) error {
		if all, _ := b.Memory.Subscriptions(ctx); len(all) >= workflow.MaxSubscriptions {
			return workflow.ErrInvalid
		}
		return b.Memory.Subscribe(ctx, s)
	}
}
