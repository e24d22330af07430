package sqliteturnlog

import (
	"database/sql"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

// A finding is an entry, and its damage if no log wrote it.
type finding struct {
	turnlog.Entry
	damage error
}

var errNoRun = errors.New("the row of the run is missing")

// scanEntry reads an entry, and judges it. The error of scanEntry is that of the database.
func scanEntry(rows *sql.Rows) (f finding, err error) {
	var at int64
	var orchestrator, session sql.NullString
	var turn sql.NullInt64
	if err := rows.Scan(&f.Run, &at, &f.Phase, &orchestrator, &session, &turn, (*[]byte)(&f.State)); err != nil {
		f.damage = turnlog.Damaged(f.Run, err)
		return f, rows.Err()
	}
	f.Orchestrator, f.Session, f.Turn, f.At = orchestrator.String, session.String, int(turn.Int64), milli(at)
	if f.damage = f.Intact(); !turn.Valid {
		f.damage = turnlog.Damaged(f.Run, errNoRun)
	}
	return f, rows.Err()
}

// milli returns a time as it is kept.
func milli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// A line is a turn, its place in the list, and its damage if no log wrote it.
type line struct {
	turnlog.Summary
	begins int64
	damage error
}

var errEnds = errors.New("the row of the run and its entries differ")

// scanTurn reads a turn, and judges it. The error of scanTurn is that of the database.
func scanTurn(rows *sql.Rows) (t line, err error) {
	a, z := &t.First, &t.Last
	var last int64
	var firstPhase, lastPhase sql.NullString
	if err := rows.Scan(&a.Run, &t.begins, &a.Orchestrator, &a.Session, &a.Turn, &last, &firstPhase, &lastPhase,
		(*[]byte)(&a.State), (*[]byte)(&z.State)); err != nil {
		t.damage = turnlog.Damaged(a.Run, err)
		return t, rows.Err()
	}
	a.Phase, a.At = firstPhase.String, milli(t.begins)
	z.Phase, z.At = lastPhase.String, milli(last)
	z.Run, z.Orchestrator, z.Session, z.Turn = a.Run, a.Orchestrator, a.Session, a.Turn
	switch {
	case !firstPhase.Valid || !lastPhase.Valid:
		t.damage = turnlog.Damaged(a.Run, errEnds)
	default:
		if t.damage = a.Intact(); t.damage == nil {
			t.damage = z.Intact()
		}
	}
	return t, rows.Err()
}
