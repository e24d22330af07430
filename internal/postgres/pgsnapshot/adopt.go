package pgsnapshot

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Adopt implements [snapshot.Store].
func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	if err := snapshot.ValidateAdopt(k, f, maxAttempts); err != nil {
		return snapshot.Run{}, err
	}
	adopt := s.adopt
	if s.calls != nil {
		adopt = s.callAdopt
	}
	r, err := adopt(ctx, k, f, maxAttempts)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return snapshot.Run{}, lock.ErrFenced
	case err != nil:
		return snapshot.Run{}, s.error(ctx, "adopt", k, err)
	case !r.inFlight:
		return snapshot.Run{}, snapshot.ErrNotFound
	case r.intact() != nil:
		return r.Run, s.error(ctx, "adopt", k, r.intact())
	case maxAttempts > 0 && r.Status == snapshot.Parked:
		return r.Run, snapshot.ErrParked
	}
	return r.Run, nil
}

// adopt makes f the session's fence, and reads the run. If f is too low, adopt returns pgx.ErrNoRows. If the run may
// have parts, adopt adopts it once more and reads the parts in the same transaction. The second adoption counts no
// attempt.
func (s *Store) adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (row, error) {
	r, err := s.adoptWhole(ctx, k, f, maxAttempts)
	if pgstate.Corrupt(err) {
		return s.unread(ctx, err, s.sql.adoptBrief, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	}
	return r, err
}

func (s *Store) adoptWhole(
	ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int,
) (adopted row, err error) {
	adopted, err = pgstate.One(ctx, s.db, scan, s.sql.adopt, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	if err != nil || !adopted.parted || !adopted.inFlight {
		return adopted, err
	}
	err = s.db.Pipe(ctx, func(b *pgx.Batch) {
		b.Queue(
			s.sql.adopt, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts,
		).Query(func(rows pgx.Rows) (err error) {
			adopted, err = pgx.CollectExactlyOneRow(rows, scan)
			return err
		})
		b.Queue(s.sql.parts, k.Orchestrator, k.Session, f.Epoch, f.Nonce).Query(func(rows pgx.Rows) (err error) {
			adopted.Parts, err = collectParts(rows)
			return err
		})
	})
	return adopted, err
}

func collectParts(rows pgx.Rows) (parts map[string]json.RawMessage, err error) {
	var name string
	var part json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&name, (*[]byte)(&part)}, func() error {
		if parts == nil {
			parts = make(map[string]json.RawMessage)
		}
		parts[name] = part
		return nil
	})
	return parts, err
}
