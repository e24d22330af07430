package pgcheckpoint

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgstate"
)

// collect reads all rows, so that no connection is held when they are yielded.
func collect[T any](ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	var page []T
	err := db.Answered(ctx, func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, scan)
		return err
	})
	return page, err
}

func scan(row pgx.CollectableRow) (cp checkpoint.Checkpoint, err error) {
	err = row.Scan(into(&cp)...)
	cp.SavedAt = cp.SavedAt.UTC()
	return cp, err
}

// into returns the destinations for the columns of a turn.
func into(cp *checkpoint.Checkpoint) []any {
	return []any{
		&cp.Turn, (*[]byte)(&cp.State), (*[]byte)(&cp.Payload), &cp.Route, &cp.Signature, &cp.Version, &cp.RunID,
		&cp.RequestID, &cp.SavedAt,
	}
}

// intact returns a *checkpoint.DamagedError if no store wrote the turn. PostgreSQL has judged the documents.
func intact(cp checkpoint.Checkpoint, k checkpoint.Key) error {
	cp.State, cp.Payload = json.RawMessage("{}"), nil
	return cp.Intact(k)
}

// scanOne returns nil if there is no row.
func scanOne(rows pgx.Rows, err error) (*checkpoint.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	cp, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &cp, nil
}
