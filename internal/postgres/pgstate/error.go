package pgstate

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/store"
)

// Error adds to err the operation and the session that it was about, or the orchestrator. It keeps the identity of err.
// If the driver only tells of a broken connection, Error adds the end of ctx.
func (d *DB) Error(ctx context.Context, op string, k store.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case k == store.Key{}:
		return d.failed(ctx, op, err)
	case k.Session == "":
		return d.failed(ctx, fmt.Sprintf("%s of %q", op, k.Orchestrator), err)
	}
	return d.failed(ctx, fmt.Sprintf("%s %q of %q", op, k.Session, k.Orchestrator), err)
}

// ErrorOf is Error for what an id names; "" names nothing.
func (d *DB) ErrorOf(ctx context.Context, op, id string, err error) error {
	if err != nil && id != "" {
		op = fmt.Sprintf("%s %q", op, id)
	}
	return d.Error(ctx, op, store.Key{}, err)
}

func (d *DB) failed(ctx context.Context, op string, err error) error {
	switch {
	case Missing(err):
		return fmt.Errorf("postgres: %s: %w: %s; if they are there, the role lacks USAGE on their schema: %w",
			op, store.ErrSchema, d.lacks(), err)
	case Refused(err):
		err = fmt.Errorf("%w: %s%w", store.ErrRefused, remedy(err), err)
	}
	return fmt.Errorf("postgres: %s: %w", op, ctxcause.Add(ctx, err))
}

// lacks returns what may be missing, and what makes it.
func (d *DB) lacks() string {
	var all []string
	for _, t := range d.names.Tables {
		all = append(all, d.Prefix.Plain(t))
	}
	if len(d.names.Functions) == 0 {
		return strings.Join(all, " or ") + ": run Up (postgres.DB.Up, or migrations.Up)"
	}
	return strings.Join(all, " or ") + " or a function like " + d.Prefix.Plain(d.names.Functions[0]) +
		": run Up (postgres.DB.Up with Options.Functions)"
}
