package sqlitesnapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const deleteSQL = `
		UPDATE {prefix}runs SET deleted_at = ?6, status = 'ended', error = '', payload = NULL
		WHERE orchestrator = ?1 AND session = ?2 AND (id = ?3 OR coalesce(id, '') = '') AND epoch = ?4 AND nonce = ?5
			AND deleted_at IS NULL AND parts = 0`

// Delete marks the row in one statement. If the run has parts, Delete is a transaction. Delete is as durable as the
// other calls: only a setting of the connection would change that.
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := s.delete(ctx, k, id, f); err != nil {
		return fmt.Errorf("sqlitesnapshot: delete %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	st, err := s.db.Start(ctx, snapshot.ValidateDelete(k, id, f))
	args := []any{k.Orchestrator, k.Session, id, f.Epoch, f.Nonce, time.Now().UnixMicro()}
	for c := (change{key: k, text: deleteSQL, args: args}); err == nil; c.clear = true {
		var deleted bool
		if deleted, err = s.write(ctx, st, c); deleted || err != nil {
			return err
		}
		var in *row
		in, err = one(ctx, st[ownerSQL], scanOwner, k.Orchestrator, k.Session)
		switch {
		case err != nil:
		case in == nil:
			return nil
		case in.fences(f):
			return lock.ErrFenced
		case in.deleted, in.ID != id && in.ID != "":
			return nil
		case in.Fence != f:
			return lock.ErrFenced
		}
		// The stored run has parts.
	}
	return err
}
