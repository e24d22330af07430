package pgcheckpoint

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// A finding is a turn as it was read.
type finding struct {
	checkpoint.Checkpoint
	route   pgtype.Array[pgtype.Text] // NULL is no intent
	savedAt pgtype.Timestamptz        // it may be infinite
	unread  error                     // why the server cannot read the turn
}

var (
	errEndless  = errors.New("saved at an infinite time")
	errNoIntent = errors.New("its route has NULL for an intent")
	errNoList   = errors.New("its route is an array of arrays")
)

// scan returns an error if the row cannot be read. A row that no store wrote is a finding.
func scan(row pgx.CollectableRow) (f finding, err error) {
	err = f.scan(row)
	return f, err
}

// scan reads the columns of a turn, which follow skipped others.
func (f *finding) scan(row pgx.CollectableRow, skipped ...any) error {
	err := row.Scan(append(skipped,
		&f.Turn, (*[]byte)(&f.State), (*[]byte)(&f.Payload), &f.route, &f.Signature, &f.Version, &f.RunID,
		&f.RequestID, &f.savedAt)...)
	f.SavedAt = f.savedAt.Time.UTC()
	if f.route.Valid {
		f.Route = make([]string, len(f.route.Elements))
	}
	for i, intent := range f.route.Elements {
		f.Route[i] = intent.String
	}
	return err
}

// judge returns a *checkpoint.DamagedError if no store wrote the turn, or if the server cannot read it. PostgreSQL has
// judged the documents.
func (f *finding) judge(k checkpoint.Key) error {
	switch {
	case f.unread != nil:
		return checkpoint.DamagedTurn(k, f.Turn, f.unread)
	case f.savedAt.InfinityModifier != pgtype.Finite:
		return checkpoint.DamagedTurn(k, f.Turn, errEndless)
	case len(f.route.Dims) > 1:
		return checkpoint.DamagedTurn(k, f.Turn, errNoList)
	case slices.Contains(f.route.Elements, pgtype.Text{}):
		return checkpoint.DamagedTurn(k, f.Turn, errNoIntent)
	}
	cp := f.Checkpoint
	cp.State, cp.Payload = json.RawMessage("{}"), nil
	return cp.Intact(k)
}

// scanOne returns the turn of a row, or nil if there is no row. Its error may be a *checkpoint.DamagedError.
func scanOne(k checkpoint.Key, rows pgx.Rows, err error) (*checkpoint.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	f, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &f.Checkpoint, f.judge(k)
}
