package sqlitesnapshot

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	beginSQL = `
		INSERT INTO {prefix}runs (` + columns + `)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?15)
		ON CONFLICT DO NOTHING`

	inTheWaySQL = `
		SELECT ` + columns + ` FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2 OR id = ?3`
)

// Begin inserts the run in one statement, and reads the one in flight in another if there is one.
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	in, err := s.begin(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("sqlitesnapshot: begin %q: %w", r.Session, s.db.Explain(ctx, err))
	}
	return in, nil
}

func (s *Store) begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	st, err := s.db.Start(ctx, r.Validate())
	for err == nil {
		var begun int64
		begun, err = s.exec(ctx, st[beginSQL], r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq,
			r.Fence.Epoch, r.Fence.Nonce, r.Error, micros(r.NotBefore), time.Now().UnixMicro(), orNull(r.Payload))
		if err != nil || begun > 0 {
			return nil, err
		}
		var in *snapshot.Run
		if in, err = inTheWay(ctx, st[inTheWaySQL], r); in != nil {
			return in, err
		}
		// What was in the way ended meanwhile.
	}
	return nil, err
}

// inTheWay returns the run that kept r from beginning, or nil if it is gone.
func inTheWay(ctx context.Context, stmt *sql.Stmt, r snapshot.Run) (*snapshot.Run, error) {
	found, err := query(ctx, stmt, r.Orchestrator, r.Session, r.ID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	i := slices.IndexFunc(found, func(other snapshot.Run) bool { return other.Key == r.Key })
	if i < 0 {
		return nil, fmt.Errorf("%w: run %q is in flight in another session", snapshot.ErrInvalid, r.ID)
	}
	return &found[i], nil
}

func orNull(doc json.RawMessage) sql.NullString {
	return sql.NullString{String: string(doc), Valid: len(doc) > 0}
}

// micros is t as it is stored: rounded down, and NULL for the zero time.
func micros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}
