package pginbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// A row is an item as it is stored.
type row struct {
	inbox.Item
	at     pgtype.Timestamptz // as the list is in the order of; it may be infinite
	unread error              // why the server cannot read the data
}

var errEndless = errors.New("posted at an infinite time")

// intact returns a *inbox.DamagedError if no store wrote the item, or if the server cannot read it.
func (r row) intact() error {
	switch {
	case r.unread != nil:
		return inbox.Damaged(r.Item, r.unread)
	case r.at.InfinityModifier != pgtype.Finite:
		return inbox.Damaged(r.Item, errEndless)
	}
	return r.Intact()
}

func scanRow(from pgx.CollectableRow, orchestrator string, kind inbox.Kind) (r row, err error) {
	r.Orchestrator, r.Kind = orchestrator, kind
	err = from.Scan(&r.Session, &r.ID, &r.By, &r.Shown, &r.at, (*[]byte)(&r.Data))
	r.At = r.at.Time.UTC()
	return r, err
}

// one returns pgx.ErrNoRows if there is no row.
func one[T any](
	ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], sql string, args ...any,
) (t T, err error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return t, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// collect returns all rows of a statement that reads. most is how many there may be.
func collect[T any](
	ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], most int, sql string, args ...any,
) (all []T, err error) {
	err = db.Answered(ctx, func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.AppendRows(make([]T, 0, most), rows, scan)
		return err
	})
	return all, err
}
