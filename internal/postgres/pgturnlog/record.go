package pgturnlog

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/turnlog"
)

// tries bounds how often Record begins again because a Prune came between.
const tries = 100

// Record implements [turnlog.Log].
func (l *Log) Record(ctx context.Context, e turnlog.Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	return l.error(ctx, "record", e.Run, l.record(ctx, e))
}

func (l *Log) record(ctx context.Context, e turnlog.Entry) error {
	state := "null"
	if e.State != nil {
		state = string(e.State) // as text, which every mode of the driver sends alike
	}
	for range tries {
		added, err := l.db.Touch(ctx, l.sql.record,
			e.Run, e.At.UTC(), e.Phase, state, e.Orchestrator, e.Session, e.Turn)
		if added == 1 || err != nil {
			return err
		}
		known, err := l.state(ctx, l.sql.known, e) // as durable as the entry
		switch {
		case errors.Is(err, pgx.ErrNoRows): // it was pruned since
		case pgstate.Corrupt(err):
			return turnlog.Damaged(e.Run, err)
		case err != nil:
			return err
		case !turnlog.Same(known, json.RawMessage(state)):
			return turnlog.ErrChanged
		default:
			return nil
		}
	}
	return errors.New("the entry is pruned all the time")
}

// state returns the state of an entry.
func (l *Log) state(ctx context.Context, sql string, e turnlog.Entry) (json.RawMessage, error) {
	return pgstate.One(ctx, l.db, func(from pgx.CollectableRow) (state json.RawMessage, err error) {
		err = from.Scan((*[]byte)(&state), nil)
		return state, err
	}, sql, e.Run, e.At.UTC(), e.Phase)
}
