package sqlitesnapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	replaceSQL = `
		UPDATE {prefix}runs SET ` + assignments + `, payload = ?15
		WHERE ` + replaceable + ` AND parts = 0`

	addSQL = `
		UPDATE {prefix}runs SET ` + assignments + `
		WHERE ` + replaceable

	assignments = `request_id = ?6, turn = ?7, attempt = ?8, base = ?9, status = ?10, seq = ?11, error = ?12,
			not_before = ?13, saved_at = ?14`

	replaceable = `orchestrator = ?1 AND session = ?2 AND id = ?3 AND epoch = ?4 AND nonce = ?5
			AND seq < ?11 AND status <> 'ended' AND deleted_at IS NULL`
)

// Save writes the run in one statement. If the run has parts, or is to have some, Save is a transaction.
func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	if err := s.save(ctx, r); err != nil {
		return fmt.Errorf("sqlitesnapshot: save %q seq %d: %w", r.Session, r.Seq, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) save(ctx context.Context, r snapshot.Run) error {
	st, err := s.db.Start(ctx, r.Validate())
	for c := saving(r); err == nil; c.clear = len(r.Payload) > 0 {
		var saved bool
		if saved, err = s.write(ctx, st, c); saved || err != nil {
			return err
		}
		var repeat bool
		if repeat, err = s.repeats(ctx, st, r); repeat {
			return nil
		}
	}
	return err
}

// repeats explains a Save that touched no row. It reports whether r is a repeat or a late copy. Without an error, the
// stored run has parts, which the Payload replaces.
func (s *Store) repeats(ctx context.Context, st sqlitestore.Statements, r snapshot.Run) (bool, error) {
	in, err := one(ctx, st[ownerSQL], scanOwner, r.Orchestrator, r.Session)
	switch {
	case err != nil:
		return false, err
	case in == nil, in.deleted, in.ID != r.ID, in.Fence != r.Fence:
		return false, lock.ErrFenced
	case in.Seq >= r.Seq:
		return true, nil
	case in.Status == snapshot.Ended:
		return false, lock.ErrFenced
	}
	return false, nil
}

// saving returns the change that saves r if the stored run has no parts to remove.
func saving(r snapshot.Run) change {
	now := time.Now()
	c := change{key: r.Key, text: addSQL, parts: r.Parts, args: []any{
		r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.RequestID, r.Turn, r.Attempt, r.Base,
		string(r.Status), r.Seq, r.Error, notBefore(now, r.Pause), now.UnixMicro(),
	}}
	if len(r.Payload) > 0 {
		c.text, c.args, c.clear = replaceSQL, append(c.args, string(r.Payload)), len(r.Parts) > 0
	}
	return c
}
