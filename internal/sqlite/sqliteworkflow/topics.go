package sqliteworkflow

import (
	"context"
	"database/sql"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	subscribeSQL = `
		INSERT INTO {prefix}workflow_subscriptions (id, pattern, workflow, url, session) VALUES (?1, ?2, ?3, ?4, ?5)`

	unsubscribeSQL = `DELETE FROM {prefix}workflow_subscriptions WHERE id = ?1`

	subscriptionsSQL = `SELECT id, pattern, workflow, url, session FROM {prefix}workflow_subscriptions ORDER BY id`
)

// Subscribe implements [workflow.Subscriptions].
func (c front) Subscribe(ctx context.Context, s workflow.Subscription) error {
	return c.write(ctx, "subscribe", s.Validate(), func(do run) error {
		all, err := do.subscriptions(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(other workflow.Subscription) bool { return other.ID == s.ID })
		switch {
		case i >= 0 && all[i] == s:
			return nil
		case i >= 0:
			return workflow.ErrKeyReused
		case len(all) >= workflow.MaxSubscriptions:
			return workflow.ErrSubscriptions
		}
		_, err = do.Exec(ctx, subscribeSQL, s.ID, s.Pattern, s.Workflow, s.URL, s.Session)
		return err
	})
}

// Unsubscribe implements [workflow.Subscriptions].
func (c front) Unsubscribe(ctx context.Context, id string) error {
	return c.write(ctx, "unsubscribe", workflow.ValidateSubscription(id), func(do run) error {
		_, err := do.Exec(ctx, unsubscribeSQL, id)
		return err
	})
}

// Subscriptions implements [workflow.Subscriptions].
func (c front) Subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	do, err := c.reader(ctx, nil)
	var all []workflow.Subscription
	if err == nil {
		all, err = do.subscriptions(ctx)
	}
	for i := 0; err == nil && i < len(all); i++ {
		err = all[i].Intact()
	}
	if err != nil {
		return nil, c.explain(ctx, "subscriptions", err)
	}
	return all, nil
}

func (do run) subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	rows, err := do.Query(ctx, subscriptionsSQL)
	return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (s workflow.Subscription, err error) {
		err = rows.Scan(&s.ID, &s.Pattern, &s.Workflow, &s.URL, &s.Session)
		return s, err
	})
}
