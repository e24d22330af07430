package turnlogs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

// SQLTable is the one table of an SQLLog. The texts of times sort as the times do.
const SQLTable = `
	CREATE TABLE IF NOT EXISTS turn_log (
		run     text NOT NULL,
		at      text NOT NULL,
		phase   text NOT NULL,
		session text NOT NULL,
		state   text NOT NULL,
		PRIMARY KEY (run, at, phase)
	)`

// An SQLLog is a turn log in a table of PostgreSQL or SQLite.
type SQLLog struct{ DB *sql.DB }

// Record adds a row. If there is such a row, Record compares the states.
func (l SQLLog) Record(ctx context.Context, e turnlog.Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	at, state := e.At.UTC().Format(turnlog.TimeFormat), "null"
	if e.State != nil {
		state = string(e.State)
	}
	added, err := l.DB.ExecContext(ctx, `
		INSERT INTO turn_log (run, at, phase, session, state) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (run, at, phase) DO NOTHING`, e.Run, at, e.Phase, e.Session, state)
	if err != nil {
		return err
	}
	if n, err := added.RowsAffected(); err != nil || n == 1 {
		return err
	}
	var stored string
	err = l.DB.QueryRowContext(ctx, `SELECT state FROM turn_log WHERE run = $1 AND at = $2 AND phase = $3`,
		e.Run, at, e.Phase).Scan(&stored)
	if err == nil && !turnlog.Same(json.RawMessage(stored), e.State) {
		err = turnlog.ErrChanged
	}
	return err
}

// Restore reads the rows of a run in the order of their times.
func (l SQLLog) Restore(ctx context.Context, run string) (all []turnlog.Entry, err error) {
	if err := turnlog.ValidateRun(run); err != nil {
		return nil, err
	}
	rows, err := l.DB.QueryContext(ctx, `
		SELECT at, phase, session, state FROM turn_log WHERE run = $1 ORDER BY at, phase`, run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		e := turnlog.Entry{Run: run}
		var at, state string
		if err := rows.Scan(&at, &e.Phase, &e.Session, &state); err != nil {
			return nil, err
		}
		if e.At, err = time.Parse(turnlog.TimeFormat, at); err != nil {
			return nil, err
		}
		e.State = json.RawMessage(state)
		all = append(all, e)
	}
	return all, rows.Err()
}
