package pgturnlog

import "github.com/holdfast-go/holdfast/internal/postgres/pgjoin"

var _ pgjoin.Log = (*Log)(nil)

// EndPart implements pgjoin.Log.
func (l *Log) EndPart() pgjoin.Part { return pgjoin.Part{DB: l.db, SQL: l.sql.end} }
