package pgsnapshot

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string // of the table, perhaps qualified, as in "app.bot_"; "" means "holdfast_"
}

// Store implements [snapshot.Store].
type Store struct {
	db     DB
	prefix sqlname.Prefix
	sql    queries
}

var _ snapshot.Store = (*Store)(nil)

// New returns a store on db. It panics if the prefix is not one or two identifiers, short enough for the names of
// tables: a prefix is a constant of the program.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pgsnapshot: " + err.Error())
	}
	return &Store{db: db, prefix: p, sql: fillAll(p)}
}

// Schema returns the statements that create the table, or bring it up to date. They may be run again.
func (s *Store) Schema() string { return fill(s.prefix, schemaSQL) }

func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	in, err := s.begin(ctx, r)
	if pgstate.Of(err) == pgstate.UniqueViolation { // the same run, begun elsewhere at this moment: now it is there
		in, err = s.begin(ctx, r)
	}
	if pgstate.Of(err) == pgstate.UniqueViolation {
		err = fmt.Errorf("%w: run %q is in flight in another session", snapshot.ErrInvalid, r.ID)
	}
	switch {
	case err != nil:
		return nil, s.error(ctx, "begin", r.Key, err)
	case in.met:
		return &in.Run, nil
	}
	return nil, nil
}

func (s *Store) begin(ctx context.Context, r snapshot.Run) (row, error) {
	return one(ctx, s.db, s.sql.begin, r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq,
		r.Fence.Epoch, r.Fence.Nonce, document(r), r.Error, instant(r.NotBefore))
}

func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	if err := snapshot.ValidateAdopt(k, f, maxAttempts); err != nil {
		return snapshot.Run{}, err
	}
	for {
		adopted, err := one(ctx, s.db, s.sql.adopt, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
		if err == nil && maxAttempts > 0 && adopted.Status == snapshot.Parked {
			return adopted.Run, snapshot.ErrParked
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return adopted.Run, s.error(ctx, "adopt", k, err)
		}
		in, err := s.inFlight(ctx, k)
		switch {
		case err != nil:
			return snapshot.Run{}, s.error(ctx, "adopt", k, err)
		case in == nil:
			return snapshot.Run{}, snapshot.ErrNotFound
		case in.Fence.Epoch > f.Epoch, in.Fence.Epoch == f.Epoch && in.Fence.Nonce != f.Nonce:
			return snapshot.Run{}, lock.ErrFenced
		} // else a late owner has begun it since
	}
}

func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	if err := r.Validate(); err != nil {
		return err
	}
	saved, err := s.exec(ctx, s.sql.save, r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.RequestID, r.Turn, r.Attempt, r.Base,
		string(r.Status), r.Seq, document(r), r.Error, instant(r.NotBefore))
	if err == nil && saved == 0 {
		var in *snapshot.Run
		if in, err = s.inFlight(ctx, r.Key); err == nil && (in == nil || in.ID != r.ID || in.Fence != r.Fence || in.Seq < r.Seq) {
			err = lock.ErrFenced
		}
	}
	return s.error(ctx, "save", r.Key, err)
}

func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := snapshot.ValidateDelete(k, id, f); err != nil {
		return err
	}
	deleted, err := s.exec(ctx, s.sql.delete, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
	if err == nil && deleted == 0 {
		var in *snapshot.Run
		if in, err = s.inFlight(ctx, k); err == nil && in != nil && in.ID == id && in.Fence != f {
			err = lock.ErrFenced
		}
	}
	return s.error(ctx, "delete", k, err)
}

// inFlight returns who has the session's run and how far it is, or nil. It explains a statement that touched no row, and
// is a statement of its own because that one may have waited for what its snapshot does not show.
func (s *Store) inFlight(ctx context.Context, k snapshot.Key) (*snapshot.Run, error) {
	var r snapshot.Run
	err := pgstate.Again(func() error {
		rows, err := s.db.Query(ctx, s.sql.inFlight, k.Orchestrator, k.Session)
		if err != nil {
			return err
		}
		r, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (r snapshot.Run, err error) {
			return r, row.Scan(&r.ID, &r.Fence.Epoch, &r.Fence.Nonce, &r.Seq)
		})
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &r, err
}

// Pages grow: the first runs of a drain should come soon, and many should not cost a round trip each.
const firstPage, mostPage = 16, 64

func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := q.Validate(); err != nil {
			yield(snapshot.Run{}, err)
			return
		}
		after, left := q.After, q.Limit
		for size := firstPage; ; size = mostPage {
			if q.Limit > 0 {
				size = min(size, left)
			}
			page, err := s.page(ctx, q, after, size)
			if err != nil {
				yield(snapshot.Run{}, s.error(ctx, "runs", q.Key, err))
				return
			}
			for _, r := range page {
				if !yield(r.Run, nil) {
					return
				}
				after = r.Session
			}
			if left -= len(page); len(page) < size || left == 0 || q.Session != "" {
				return
			}
		}
	}
}

func (s *Store) page(ctx context.Context, q snapshot.Query, after string, size int) (page []row, err error) {
	sql, args := s.sql.runs, []any{q.Orchestrator, after, string(q.Status), size}
	if q.Session != "" {
		sql, args = s.sql.session, append(args, q.Session)
	}
	err = pgstate.Again(func() error {
		rows, err := s.db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, scan)
		return err
	})
	return page, err
}

// A row is a run, and whether a later Begin has met it.
type row struct {
	snapshot.Run
	met bool
}

func scan(from pgx.CollectableRow) (r row, err error) {
	var notBefore *time.Time
	err = from.Scan(&r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base, (*string)(&r.Status), &r.Seq,
		&r.Fence.Epoch, &r.Fence.Nonce, (*[]byte)(&r.Payload), &r.Error, &notBefore, &r.StartedAt, &r.SavedAt, &r.met, nil)
	r.StartedAt, r.SavedAt = r.StartedAt.UTC(), r.SavedAt.UTC()
	if notBefore != nil {
		r.NotBefore = notBefore.UTC()
	}
	return r, err
}

func one(ctx context.Context, db DB, sql string, args ...any) (r row, err error) {
	err = pgstate.Again(func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		r, err = pgx.CollectExactlyOneRow(rows, scan)
		return err
	})
	return r, err
}

// exec returns how many rows a statement touched.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (touched int64, err error) {
	err = pgstate.Again(func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		touched = tag.RowsAffected()
		return err
	})
	return touched, err
}

// document is the payload as text, which every mode of the driver sends alike; nil if there is none.
func document(r snapshot.Run) *string {
	if len(r.Payload) == 0 {
		return nil
	}
	text := string(r.Payload)
	return &text
}

// instant is t to the microsecond, rounded down as the other stores do; nil if it is zero.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.Truncate(time.Microsecond)
	return &t
}

// error names what failed, and keeps the identity of err.
func (s *Store) error(ctx context.Context, op string, k snapshot.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrFenced) || errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgsnapshot: %s: %w: %s: run migrations.Up, or Store.Schema for a prefix of your own: %w",
			op, snapshot.ErrSchema, s.prefix.Plain("runs"), err)
	}
	return fmt.Errorf("pgsnapshot: %s %q of %q: %w", op, k.Session, k.Orchestrator, pgstate.Ended(ctx, err))
}
