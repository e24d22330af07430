package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
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

	deleteSQL = `
		UPDATE {prefix}runs SET deleted_at = ?6, status = 'ended', error = '', payload = NULL
		WHERE orchestrator = ?1 AND session = ?2 AND (id = ?3 OR coalesce(id, '') = '') AND epoch = ?4 AND nonce = ?5
			AND deleted_at IS NULL AND parts = 0`
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
		var in *row
		in, err = one(ctx, st[ownerSQL], scanOwner, r.Orchestrator, r.Session)
		switch {
		case err != nil:
		case in == nil, in.deleted, in.ID != r.ID, in.Fence != r.Fence:
			return lock.ErrFenced
		case in.Seq >= r.Seq:
			return nil
		case in.Status == snapshot.Ended:
			return lock.ErrFenced
		}
		// The stored run has parts, which the Payload replaces.
	}
	return err
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

// Join joins with a *[sqlitecheckpoint.Store] on the same *sql.DB. A Settle then is one transaction.
func (s *Store) Join(turns checkpoint.Store) snapshot.Settle {
	t, ok := turns.(*sqlitecheckpoint.Store)
	if !ok {
		return nil
	}
	settle := t.Joined(sqlitestore.Part{DB: s.db, Forget: s.forgetIn})
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		// In the transaction the store may ask for no other connection.
		if _, err := s.db.Start(ctx); err != nil {
			return false, fmt.Errorf("sqlitesnapshot: delete %q: %w", l.Session, s.db.Explain(ctx, err))
		}
		return settle(ctx, l, cp, o)
	}
}

// forgetIn deletes the run of a lease in a transaction that has already written.
func (s *Store) forgetIn(ctx context.Context, tx *sql.Tx, l checkpoint.Lease, id string) (forgotten bool, err error) {
	st, err := s.db.Start(ctx)
	if err != nil {
		return false, err
	}
	args := []any{l.Orchestrator, l.Session, id, l.Fence.Epoch, l.Fence.Nonce, time.Now().UnixMicro()}
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[deleteSQL]).ExecContext(ctx, args...))
	if n > 0 || err != nil {
		return n > 0, err
	}
	in, err := one(ctx, tx.StmtContext(ctx, st[ownerSQL]), scanOwner, l.Orchestrator, l.Session)
	if err != nil || in == nil || in.deleted || in.Fence != l.Fence || in.ID != id && in.ID != "" {
		return false, err
	}
	c := change{key: snapshot.Key(l.Key), text: deleteSQL, args: args, clear: true} // the run has parts
	err = c.apply(ctx, tx, st)
	return err == nil, err
}
