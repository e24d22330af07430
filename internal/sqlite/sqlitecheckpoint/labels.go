package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"math"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	unlabelSQL = `
		DELETE FROM {prefix}labels
		WHERE orchestrator = ?1 AND session = ?2`

	labelSQL = `
		INSERT INTO {prefix}labels (orchestrator, session, label, due)
		VALUES (?1, ?2, ?3, ?4)`

	// Both look each session up in the table of heads. A version of before, which knows no labels, may have deleted a
	// session and left its labels.
	labeledSQL = `
		SELECT l.session FROM {prefix}labels l INDEXED BY {prefix}labels_name
		WHERE l.orchestrator = ?1 AND l.session >= ?2 AND l.session < ?3 AND l.session <> ?4 AND l.label = ?8` + headed

	labeledBySQL = `
		SELECT l.session FROM {prefix}labels l INDEXED BY {prefix}labels_due
		WHERE l.orchestrator = ?1 AND l.session >= ?2 AND l.session < ?3 AND l.session <> ?4 AND l.label = ?8
			AND l.due IS NOT NULL AND l.due <= ?9` + headed

	headed = ` AND EXISTS (
				SELECT 1 FROM {prefix}sessions h
				WHERE h.orchestrator = l.orchestrator AND h.session = l.session AND h.turn >= 0
					AND (h.owed IS NOT NULL OR ?7 < -1) AND h.retry_at <= ?6 AND h.retry_at > ?7)
		ORDER BY l.session
		LIMIT ?5`
)

// relabel replaces the labels of a session in a transaction that has written.
func relabel(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, k checkpoint.Key, labels []checkpoint.Label,
) error {
	if _, err := tx.StmtContext(ctx, st[unlabelSQL]).ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
		return err
	}
	for _, l := range labels {
		at := sql.NullInt64{Int64: l.At.UnixMilli(), Valid: !l.At.IsZero()}
		if _, err := tx.StmtContext(ctx, st[labelSQL]).
			ExecContext(ctx, k.Orchestrator, k.Session, l.Name, at); err != nil {
			return err
		}
	}
	return nil
}

// labeled returns the statement for a query by a label, and the arguments that follow those of sessionsSQL. due are
// those of owingSQL; nil if the query is not about sessions that owe.
func labeled(q checkpoint.SessionQuery, due []any) (text string, args []any) {
	if due == nil {
		due = []any{int64(math.MaxInt64), -2} // owing or not
	}
	if by := q.DueBy(); !by.IsZero() {
		return labeledBySQL, append(due, q.Label, by.UnixMilli())
	}
	return labeledSQL, append(due, q.Label)
}
