package migrations

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

// A Schemer knows the SQL that creates what it needs in a database. Every store that has tables is a Schemer.
type Schemer interface {
	// Schema returns SQL statements that change nothing when they run again, or "" if nothing is needed.
	Schema() string
}

// FromSchema returns a migration for the application's own goose provider. Give it to the provider by
// [goose.WithGoMigrations]. Up creates what the stores need. Down drops the tables and indexes that their schemas
// create, in reverse order. Both run in a transaction. They leave alone what exists already, or is gone already.
//
// Each store must be on the provider's database, or need nothing, as the stores in memory and on Redis do. If a prefix
// names a schema on PostgreSQL, the schema must exist. If several processes migrate at once, the provider needs one of
// goose's locks.
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
