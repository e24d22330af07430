package pgsnapshot

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Save implements [snapshot.Store].
func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	if err := r.Validate(); err != nil {
		return err
	}
	save, args := s.sql.save, saveArgs(r)
	if s.calls != nil {
		return s.told(ctx, "save", r.Key, s.calls.save, withParts(args, r.Parts)...)
	}
	if len(r.Parts) > 0 {
		save, args = s.sql.saveParts, withParts(args, r.Parts)
	}
	version, err := s.touch(ctx, save, args...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = s.whyNotSaved(ctx, r)
	case err == nil && version > 0 && len(r.Payload) > 0:
		s.clean(ctx, r.Key, version)
	}
	return s.error(ctx, "save", r.Key, err)
}

// saveArgs returns the parameters of a Save without parts.
func saveArgs(r snapshot.Run) []any {
	return []any{
		r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.RequestID, r.Turn, r.Attempt, r.Base,
		string(r.Status), r.Seq, document(r), r.Error, microseconds(r.Pause),
	}
}

// whyNotSaved explains a Save which changed nothing. It returns nil if r.Seq is not above the stored Seq.
func (s *Store) whyNotSaved(ctx context.Context, r snapshot.Run) error {
	saved, err := pgstate.One(ctx, s.db, pgx.RowTo[bool], s.sql.saved,
		r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.Seq)
	if err == nil && !saved {
		err = lock.ErrFenced
	}
	return err
}
