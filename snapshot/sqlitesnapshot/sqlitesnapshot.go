package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string // of all names in the database, one identifier; "" means "holdfast_"
}

// A Store keeps runs in a table of an SQLite database. It has prepared statements on the connections of its *sql.DB as
// long as that is open: make one and keep it.
type Store struct{ db *sqlitestore.DB }

var _ snapshot.Store = (*Store)(nil)

// ErrDSN refuses a database that would lose what it acknowledged, fail where it should wait, or sort differently.
// The message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// New returns a store on db, which stays the caller's. It panics if o.Prefix is invalid.
func New(db *sql.DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	prefix, err := sqlitestore.ParsePrefix(o.Prefix, "runs")
	if err != nil {
		panic("sqlitesnapshot: " + err.Error())
	}
	return &Store{sqlitestore.New(db, layout(prefix))}
}

const (
	adoptSQL = `
		UPDATE {prefix}runs SET
			attempt = attempt + (` + counts + ` AND attempt < ?5),
			status = CASE WHEN ` + counts + ` AND attempt >= ?5 THEN 'parked' ELSE status END,
			epoch = ?3,
			nonce = ?4
		WHERE orchestrator = ?1 AND session = ?2 AND (epoch < ?3 OR epoch = ?3 AND nonce = ?4)
		RETURNING ` + columns

	// Whether an adoption is an attempt: not for who owns the run already, nor for one that will not be run.
	counts = `(?5 > 0 AND (epoch, nonce) <> (?3, ?4) AND status NOT IN ('parked', 'ended'))`

	saveSQL = `
		UPDATE {prefix}runs SET
			request_id = ?6, turn = ?7, attempt = ?8, base = ?9, status = ?10, seq = ?11,
			payload = ?12, error = ?13, not_before = ?14, saved_at = ?15
		WHERE orchestrator = ?1 AND session = ?2 AND id = ?3 AND epoch = ?4 AND nonce = ?5 AND seq < ?11 AND status <> 'ended'`

	deleteSQL = `
		DELETE FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2 AND id = ?3 AND epoch = ?4 AND nonce = ?5`

	ownerSQL = `
		SELECT id, epoch, nonce, seq FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2`
)

// Adopt writes the fence and the attempt in the statement that returns the run.
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
	adopted, err := s.take(ctx, st, k, f, maxAttempts)
	if err != nil {
		return snapshot.Run{}, err
	}
	if len(adopted) == 0 {
		in, err := owner(ctx, st, k)
		switch {
		case err != nil:
			return snapshot.Run{}, err
		case in == nil:
			return snapshot.Run{}, snapshot.ErrNotFound
		case in.Fence.Epoch < f.Epoch || in.Fence == f: // a late owner has begun it since
			return s.adopt(ctx, k, f, maxAttempts)
		}
		return snapshot.Run{}, lock.ErrFenced
	}
	if maxAttempts > 0 && adopted[0].Status == snapshot.Parked {
		return adopted[0], snapshot.ErrParked
	}
	return adopted[0], nil
}

func (s *Store) take(ctx context.Context, st sqlitestore.Statements, k snapshot.Key, f lock.Fence, maxAttempts int) ([]snapshot.Run, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := st[adoptSQL].QueryContext(ctx, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	return sqlitestore.Collect(rows, err, scan)
}

// Save replaces the run in one statement.
func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	if err := s.save(ctx, r); err != nil {
		return fmt.Errorf("sqlitesnapshot: save %q seq %d: %w", r.Session, r.Seq, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) save(ctx context.Context, r snapshot.Run) error {
	st, err := s.db.Start(ctx, r.Validate())
	if err != nil {
		return err
	}
	saved, err := s.exec(ctx, st[saveSQL], r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.RequestID, r.Turn, r.Attempt,
		r.Base, string(r.Status), r.Seq, orNull(r.Payload), r.Error, micros(r.NotBefore), time.Now().UnixMicro())
	if err != nil || saved > 0 {
		return err
	}
	in, err := owner(ctx, st, r.Key)
	if err == nil && (in == nil || in.ID != r.ID || in.Fence != r.Fence || in.Seq < r.Seq) {
		return lock.ErrFenced
	}
	return err
}

// Delete removes the run in one statement. It is as durable as the rest: a setting of the connection would decide that.
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := s.delete(ctx, k, id, f); err != nil {
		return fmt.Errorf("sqlitesnapshot: delete %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	st, err := s.db.Start(ctx, snapshot.ValidateDelete(k, id, f))
	if err != nil {
		return err
	}
	deleted, err := s.exec(ctx, st[deleteSQL], k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
	if err != nil || deleted > 0 {
		return err
	}
	in, err := owner(ctx, st, k)
	if err == nil && in != nil && in.ID == id && in.Fence != f {
		return lock.ErrFenced
	}
	return err
}

// exec writes in its turn and returns how many rows it touched.
func (s *Store) exec(ctx context.Context, stmt *sql.Stmt, args ...any) (int64, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return sqlitestore.Affected(stmt.ExecContext(ctx, args...))
}

// owner returns who has the session's run and how far it is, or nil. It explains a statement that touched no row.
func owner(ctx context.Context, st sqlitestore.Statements, k snapshot.Key) (*snapshot.Run, error) {
	rows, err := st[ownerSQL].QueryContext(ctx, k.Orchestrator, k.Session)
	found, err := sqlitestore.Collect(rows, err, scanOwner)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
