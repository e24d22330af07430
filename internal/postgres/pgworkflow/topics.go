package pgworkflow

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// Subscribe implements [workflow.Subscriptions]. It is one statement, and one more if nothing was added.
func (f *front) Subscribe(ctx context.Context, s workflow.Subscription) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return f.error(ctx, "subscribe", "", f.subscribe(ctx, &s))
}

func (f *front) subscribe(ctx context.Context, s *workflow.Subscription) error {
	for range tries {
		added := false
		err := f.db.Answered(ctx, func() error {
			return f.pipe(ctx, []call{{f.sql.subscribe, []any{
				s.ID, s.Pattern, s.Workflow, s.URL, s.Session, workflow.MaxSubscriptions,
			}, each(func() { added = true }, nil)}})
		})
		if err != nil || added {
			return err
		}
		all, err := f.subscriptions(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(other workflow.Subscription) bool { return other.ID == s.ID })
		switch {
		case i >= 0 && all[i] == *s:
			return nil
		case i >= 0:
			return workflow.ErrKeyReused
		case len(all) >= workflow.MaxSubscriptions:
			return workflow.ErrSubscriptions
		}
	}
	return changing("subscription")
}

// Unsubscribe implements [workflow.Subscriptions].
func (f *front) Unsubscribe(ctx context.Context, id string) error {
	if err := workflow.ValidateSubscription(id); err != nil {
		return err
	}
	_, err := pgstate.One(ctx, f.db, pgx.RowTo[string], f.sql.unsubscribe, id)
	return f.error(ctx, "unsubscribe", "", err)
}

// Subscriptions implements [workflow.Subscriptions].
func (f *front) Subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	all, err := f.subscriptions(ctx)
	for i := 0; err == nil && i < len(all); i++ {
		err = all[i].Intact()
	}
	if err != nil {
		return nil, f.error(ctx, "subscriptions", "", err)
	}
	return all, nil
}

func (f *front) subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	return pgstate.Collect(ctx, f.db, scanSubscription, 0, f.sql.subscriptions)
}

func scanSubscription(from pgx.CollectableRow) (s workflow.Subscription, err error) {
	err = from.Scan(&s.ID, &s.Pattern, &s.Workflow, &s.URL, &s.Session)
	return s, err
}
