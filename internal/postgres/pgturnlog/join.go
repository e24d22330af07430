package pgturnlog

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/turnlog"
)

var _ pgjoin.Log = (*Log)(nil)

// EntriesPart implements pgjoin.Log.
func (l *Log) EntriesPart() pgjoin.Cargo {
	return pgjoin.Cargo{
		DB: l.db, Ready: l.sql.fresh, Write: l.sql.entries,
		Done: "(SELECT count(*) FROM noted) = coalesce(cardinality(" + pgjoin.EntryTimes + "), 0)",
	}
}

// EntryArgs returns the parameters of the EntriesPart.
func EntryArgs(all []turnlog.Entry) []any {
	var phases, states []string
	var times []time.Time
	turn := 0
	for _, e := range all {
		state := "null"
		if e.State != nil {
			state = string(e.State)
		}
		phases, times, states = append(phases, e.Phase), append(times, e.At.UTC()), append(states, state)
		turn = max(turn, e.Turn)
	}
	return []any{times, phases, states, turn}
}

// EndPart implements pgjoin.Log.
func (l *Log) EndPart() pgjoin.Part { return pgjoin.Part{DB: l.db, SQL: l.sql.end} }
