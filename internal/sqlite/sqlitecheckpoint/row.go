package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const noRoute = "[]"

// one returns the checkpoint of k that a query finds, or nil.
func one(ctx context.Context, stmt *sql.Stmt, k checkpoint.Key, args ...any) (*checkpoint.Checkpoint, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	page, err := sqlitestore.Collect(rows, err, scan)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return &page[0].Checkpoint, page[0].judge(k)
}

// scan reads a row. Its error is an error of the database.
func scan(rows *sql.Rows) (f finding, err error) {
	f.Checkpoint, f.unread = scanColumns(rows)
	return f, rows.Err()
}

// scanColumns reads the columns. If a column cannot be read, the columns before it still are. The number is the first
// column.
func scanColumns(rows *sql.Rows) (cp checkpoint.Checkpoint, err error) {
	var route []byte
	var savedAt int64
	err = rows.Scan(&cp.Turn, (*[]byte)(&cp.State), (*[]byte)(&cp.Payload), &route,
		&cp.Signature, &cp.Version, &cp.RunID, &cp.RequestID, &savedAt)
	if err != nil {
		return cp, err
	}
	cp.SavedAt = time.UnixMicro(savedAt).UTC()
	if string(route) != noRoute {
		if err := json.Unmarshal(route, &cp.Route); err != nil {
			return cp, fmt.Errorf("route: %w", err)
		}
	}
	return cp, nil
}

func clone(cp *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	c := *cp
	c.State = slices.Clone(cp.State)
	c.Payload = slices.Clone(cp.Payload)
	c.Route = slices.Clone(cp.Route)
	return &c
}
