package sqliteturnlog

import (
	"context"
	"database/sql"
	"encoding/json"
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
	return l.RecordIn(ctx, tx, []turnlog.Entry{{
		Run: e.Run, Turn: e.Turn, Orchestrator: e.Orchestrator, Session: e.Session, Phase: turnlog.Settled, At: e.At,
		State: json.RawMessage(e.State),
	}})
}

// RecordIn implements sqlitejoin.Log.
func (l *Log) RecordIn(ctx context.Context, tx *sql.Tx, all []turnlog.Entry) (added bool, err error) {
	st, err := l.db.Start(ctx)
	for _, e := range all {
		if err == nil {
			err = add(ctx, tx, st, e)
		}
	}
	if errors.Is(err, errKnown) {
		return false, nil
	}
	return err == nil, err
}
