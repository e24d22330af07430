package sqliteinbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	postSQL = `
		INSERT INTO {prefix}inbox (orchestrator, session, kind, id, posted_by, shown, at, data)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		ON CONFLICT (orchestrator, session, kind, id) DO NOTHING`

	postedSQL = `
		SELECT posted_by FROM {prefix}inbox
		WHERE orchestrator = ?1 AND session = ?2 AND kind = ?3 AND id = ?4`
)

// Post is one transaction. If there is an item, the transaction writes nothing.
func (s *Store) Post(ctx context.Context, it inbox.Item) (first bool, err error) {
	st, err := s.db.Start(ctx, it.Validate())
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			first, err = post(ctx, tx, st, it)
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("sqliteinbox: post %q: %w", it.Session, s.db.Explain(ctx, err))
	}
	return first, nil
}

func post(ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, it inbox.Item) (first bool, err error) {
	data := "null"
	if it.Data != nil {
		data = string(it.Data)
	}
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[postSQL]).ExecContext(ctx, it.Orchestrator, it.Session,
		string(it.Kind), it.ID, it.By, it.Shown, time.Now().UnixMicro(), data))
	if err != nil || n == 1 {
		return n == 1, err
	}
	var by string
	err = tx.StmtContext(ctx, st[postedSQL]).QueryRowContext(ctx, it.Orchestrator, it.Session, string(it.Kind), it.ID).
		Scan(&by)
	if sqlitestore.Corrupt(err) {
		err = inbox.Damaged(it, err)
	}
	return by == it.By, err
}
