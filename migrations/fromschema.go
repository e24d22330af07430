package migrations

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

// A Schemer says how to create what it needs in a database. Every store of Holdfast is one.
type Schemer interface {
	// Schema returns SQL statements that change nothing when they run again, or "" if nothing is needed.
	Schema() string
}

// FromSchema returns a migration for the application's own goose provider, given to it by [goose.WithGoMigrations].
// Up creates what the stores need, and down drops the tables and indexes that their schemas create, in reverse order.
// Both run in a transaction, and do nothing about what is already as they want it.
//
// The stores must all be of the provider's database, or need nothing, as those in memory and Redis do. A schema that
// a prefix names on PostgreSQL must exist. If several processes migrate at once, that provider needs a lock of goose's.
func FromSchema(version int64, stores ...Schemer) *goose.Migration {
	var up, down []string
	for _, s := range stores {
		if text := s.Schema(); strings.TrimSpace(text) != "" {
			up = append(up, text)
		}
	}
	for _, text := range slices.Backward(up) {
		down = append(down, ddl.Drop(text)...)
	}
	return goose.NewGoMigration(version, &goose.GoFunc{RunTx: execute(up)}, &goose.GoFunc{RunTx: execute(down)})
}

func execute(texts []string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range texts {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	}
}
