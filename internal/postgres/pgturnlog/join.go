package pgturnlog

import "github.com/holdfast-go/holdfast/internal/postgres/pgjoin"

var _ pgjoin.Log = (*Log)(nil)

// EntriesPart implements pgjoin.Log.
func (l *Log) EntriesPart() pgjoin.Cargo {
	return pgjoin.Cargo{
		DB: l.db, Ready: l.sql.fresh, Write: l.sql.entries,
		Done: "(SELECT count(*) FROM noted) = coalesce(cardinality(" + pgjoin.EntryTimes + "), 0)",
	}
}

// EndPart implements pgjoin.Log.
func (l *Log) EndPart() pgjoin.Part { return pgjoin.Part{DB: l.db, SQL: l.sql.end} }
