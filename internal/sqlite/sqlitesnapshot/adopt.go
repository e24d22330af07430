package sqlitesnapshot

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	adoptSQL = `
		UPDATE {prefix}runs SET
			attempt = attempt + (` + counts + ` AND attempt < ?5),
			status = CASE WHEN ` + counts + ` AND attempt >= ?5 THEN 'parked' ELSE status END,
			epoch = ?3,
			nonce = ?4
		WHERE orchestrator = ?1 AND session = ?2 AND (epoch < ?3 OR epoch = ?3 AND nonce = ?4)
			AND deleted_at IS NULL AND (parts = 0 OR ?6)
		RETURNING ` + columns

	// counts says whether an adoption is an attempt. It is none if the caller owns the run already, or if the run will
	// not be run.
	counts = `(?5 > 0 AND (epoch, nonce) <> (?3, ?4) AND status NOT IN ('parked', 'ended'))`

	// fenceSQL adopts a damaged run. It writes only the fence: a CHECK refuses to touch damage in the other columns.
	fenceSQL = `
		UPDATE {prefix}runs SET epoch = ?3, nonce = ?4
		WHERE orchestrator = ?1 AND session = ?2 AND (epoch < ?3 OR epoch = ?3 AND nonce = ?4) AND deleted_at IS NULL
		RETURNING ` + columns

	// keepSQL keeps a fence. A row without an id says that the session has had no run under its fence.
	keepSQL = `
		INSERT INTO {prefix}runs AS old (` + columns + `, found, deleted_at, parts)
		VALUES (?1, ?2, '', '', 0, 0, '', 'ended', 0, ?3, ?4, '', NULL, ?5, ?5, NULL, 0, ?5, 0)
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			id = excluded.id,
			epoch = excluded.epoch,
			nonce = excluded.nonce,
			deleted_at = excluded.deleted_at
		WHERE old.deleted_at IS NOT NULL AND old.epoch < excluded.epoch`

	partsSQL = `
		SELECT name, doc FROM {prefix}run_parts
		WHERE orchestrator = ?1 AND session = ?2`
)

// Adopt writes the fence and the attempt in the statement that returns the run. If the run has parts, a transaction
// reads them too. If there is no run, another statement keeps the fence.
func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	r, err := s.adopt(ctx, k, f, maxAttempts)
	if err != nil {
		return r, fmt.Errorf("sqlitesnapshot: adopt %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return r, nil
}

func (s *Store) adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	st, err := s.db.Start(ctx, snapshot.ValidateAdopt(k, f, maxAttempts))
	if err != nil {
		return snapshot.Run{}, err
	}
	args := []any{k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts}
	for take := s.take; ; take = s.takeWhole {
		adopted, err := take(ctx, st, args)
		if err != nil {
			adopted, err = s.takeDamaged(ctx, st, args, err)
		}
		switch {
		case err != nil:
			return snapshot.Run{}, err
		case adopted == nil:
			if err := s.notAdopted(ctx, st, k, f); err != nil {
				return snapshot.Run{}, err
			}
		case adopted.damage != nil:
			return adopted.Run, adopted.damage
		case maxAttempts > 0 && adopted.Status == snapshot.Parked:
			return adopted.Run, snapshot.ErrParked
		default:
			return adopted.Run, nil
		}
	}
}

// take adopts a run without parts, or returns nil.
func (s *Store) take(ctx context.Context, st sqlitestore.Statements, args []any) (*finding, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	adopted, err := one(ctx, st[adoptSQL], scan, append(args, false)...)
	if err == nil && adopted != nil {
		err = s.db.There() // an error if the file is gone, and the write with it
	}
	return adopted, err
}

// takeDamaged handles the error err of a take. If the run is damaged, takeDamaged makes the fence that of the run.
func (s *Store) takeDamaged(ctx context.Context, st sqlitestore.Statements, args []any, err error) (*finding, error) {
	const fenceArgs = 4
	var adopted *finding
	failed := s.db.Write(ctx, func(tx *sql.Tx) (e error) {
		adopted, e = one(ctx, tx.StmtContext(ctx, st[fenceSQL]), scan, args[:fenceArgs]...)
		if e == nil && (adopted == nil || adopted.damage == nil) {
			e = errUntouched
		}
		return e
	})
	if failed != nil {
		return nil, err
	}
	return adopted, nil
}

// takeWhole adopts a run and reads its parts in one transaction, so that no other caller writes in between. It returns
// nil if it adopts none.
func (s *Store) takeWhole(ctx context.Context, st sqlitestore.Statements, args []any) (*finding, error) {
	var adopted *finding
	err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		adopted, err = one(ctx, tx.StmtContext(ctx, st[adoptSQL]), scan, append(args, true)...)
		if err == nil && adopted != nil && adopted.damage == nil {
			err = adopted.readParts(ctx, tx.StmtContext(ctx, st[partsSQL]))
		}
		return err
	})
	return adopted, err
}

// notAdopted returns why no run was adopted. If the session has no run, notAdopted keeps f first. If there is a run to
// adopt, it returns nil: the run has parts, or a late owner has begun it since.
func (s *Store) notAdopted(ctx context.Context, st sqlitestore.Statements, k snapshot.Key, f lock.Fence) error {
	in, err := one(ctx, st[ownerSQL], scanOwner, k.Orchestrator, k.Session)
	switch {
	case err != nil:
		return err
	case in == nil:
	case in.fences(f):
		return lock.ErrFenced
	case !in.deleted:
		return nil
	case in.Fence == f:
		return snapshot.ErrNotFound
	}
	kept, err := s.exec(ctx, st[keepSQL], []any{k.Orchestrator, k.Session, f.Epoch, f.Nonce, time.Now().UnixMicro()})
	if kept && err == nil {
		return snapshot.ErrNotFound
	}
	return err
}

// readParts reads the parts of the run, and judges them.
func (f *finding) readParts(ctx context.Context, stmt *sql.Stmt) error {
	rows, err := stmt.QueryContext(ctx, f.Orchestrator, f.Session)
	found, err := sqlitestore.Collect(rows, err, scanPart)
	if errors.Is(err, snapshot.ErrDamaged) {
		f.damage = snapshot.Damaged(f.Key, err)
		return nil
	}
	if err != nil || len(found) == 0 {
		return err
	}
	f.Parts = make(map[string]json.RawMessage, len(found))
	for _, p := range found {
		f.Parts[p.name] = p.doc
	}
	r := f.Run
	r.Payload = nil // the payload has been judged
	f.damage = r.Intact()
	return nil
}

type part struct {
	name string
	doc  []byte
}

func scanPart(rows *sql.Rows) (p part, err error) {
	if err := rows.Scan(&p.name, &p.doc); err != nil {
		return p, fmt.Errorf("%w: part: %w", snapshot.ErrDamaged, err)
	}
	return p, nil
}
