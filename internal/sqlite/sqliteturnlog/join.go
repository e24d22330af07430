package sqliteturnlog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitejoin"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

var _ sqlitejoin.Log = (*Log)(nil)

// DB implements sqlitejoin.Log.
func (l *Log) DB() *sqlitestore.DB { return l.db }

// RecordEnd implements sqlitejoin.Log.
func (l *Log) RecordEnd(ctx context.Context, tx *sql.Tx, e sqlitejoin.End) (added bool, err error) {
	st, err := l.db.Start(ctx)
	if err != nil {
		return false, err
	}
	err = add(ctx, tx, st, turnlog.Entry{
		Run: e.Run, Turn: e.Turn, Orchestrator: e.Orchestrator, Session: e.Session, Phase: turnlog.Settled, At: e.At,
	}, e.State)
	if errors.Is(err, errKnown) {
		return false, nil
	}
	return err == nil, err
}
