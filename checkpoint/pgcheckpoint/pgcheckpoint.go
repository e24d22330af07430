package pgcheckpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string        // of the tables, perhaps qualified, as in "app.bot_"; "" means "holdfast_"
	TTL    time.Duration // after which Sweep retires an idle session; 0: sessions stay
}

// Store implements [checkpoint.Store] and [checkpoint.Sweeper].
type Store struct {
	db     DB
	prefix sqlname.Prefix
	sql    queries
	ttl    time.Duration
}

var (
	_ checkpoint.Store   = (*Store)(nil)
	_ checkpoint.Sweeper = (*Store)(nil)
)

// New returns a store on db. It panics if the prefix is not one or two identifiers, short enough for the names of
// tables: a prefix is a constant of the program.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pgcheckpoint: " + err.Error())
	}
	return &Store{db: db, prefix: p, sql: fillAll(p), ttl: o.TTL}
}

// Schema returns the statements that create the tables, or bring them up to date. They may be run again.
func (s *Store) Schema() string { return fill(s.prefix, schemaSQL) }

func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := errors.Join(k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	var c checkpoint.Claimed
	err := again(func() (err error) {
		c, err = s.claim(ctx, k, r)
		return err
	})
	if err != nil {
		return checkpoint.Claimed{}, s.error(ctx, "claim", k, err)
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (c checkpoint.Claimed, err error) {
	var b pgx.Batch
	b.Queue(s.sql.claim, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(), r.Steal)
	b.Queue(s.sql.newest, k.Orchestrator, k.Session, r.Nonce)
	if r.RequestID != "" {
		b.Queue(s.sql.answered, k.Orchestrator, k.Session, r.Nonce, r.RequestID)
	}
	results := s.db.SendBatch(ctx, &b)
	defer func() { err = errors.Join(err, results.Close()) }()

	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: r.Nonce}}
	last := -1
	err = results.QueryRow().Scan(&c.Fence.Epoch, &c.Born, &last, &c.Summarized, &c.Delivered, nil)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, lock.ErrHeld
	}
	if err != nil {
		return c, err
	}
	if c.Last, err = scanOne(results.Query()); err != nil {
		return c, err
	}
	if last >= 0 && c.Last == nil {
		return c, fmt.Errorf("%w: turn %d, the newest, has no row", checkpoint.ErrInvalid, last)
	}
	if r.RequestID != "" {
		c.Answered, err = scanOne(results.Query())
	}
	return c, err
}

func (s *Store) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	keep, err := o.Kept()
	if err := errors.Join(l.Validate(), cp.Validate(), err); err != nil {
		return err
	}
	var payload *string
	if len(cp.Payload) > 0 {
		text := string(cp.Payload)
		payload = &text
	}
	route := cp.Route
	if route == nil {
		route = []string{}
	}
	settled, err := s.exec(ctx, s.sql.append, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.Turn,
		string(cp.State), payload, route, cp.Signature, cp.Version, cp.RunID, cp.RequestID, keep, o.Owes, o.Release)
	if err == nil && settled == 0 {
		err = s.whyNot(ctx, l, cp.RunID)
	}
	return s.error(ctx, "append", l.Key, err)
}

// whyNot explains an Append that found no head to move. It looks for the run by its id: who took the session over may
// have settled it under another number.
func (s *Store) whyNot(ctx context.Context, l checkpoint.Lease, run string) error {
	var settled, ours bool
	err := again(func() error {
		rows, err := s.db.Query(ctx, s.sql.explain, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, run)
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
			return struct{}{}, row.Scan(&settled, &ours)
		})
		return err
	})
	switch {
	case err != nil:
		return err
	case settled:
		return nil
	case ours:
		return checkpoint.ErrConflict
	}
	return lock.ErrFenced
}

func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if err := errors.Join(l.Validate(), m.Validate()); err != nil {
		return err
	}
	marked, err := s.exec(ctx, s.sql.mark, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, m.Summarized, m.Delivered, m.Release)
	if err == nil && marked == 0 && m != (checkpoint.Marks{Release: true}) {
		err = lock.ErrFenced
	}
	return s.error(ctx, "mark", l.Key, err)
}

func (s *Store) Delete(ctx context.Context, k checkpoint.Key) error {
	if err := k.Validate(); err != nil {
		return err
	}
	err := again(func() error {
		var b pgx.Batch
		b.Queue(s.sql.deleteHead, k.Orchestrator, k.Session)
		b.Queue(s.sql.deleteTurns, k.Orchestrator, k.Session)
		return s.db.SendBatch(ctx, &b).Close()
	})
	return s.error(ctx, "delete", k, err)
}

// sweepBatch is how many sessions one statement retires.
const sweepBatch = 1000

// Sweep retires idle sessions, in batches, passing over those that are locked.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	if s.ttl <= 0 {
		return 0, nil
	}
	for limit <= 0 || retired < limit {
		batch := sweepBatch
		if limit > 0 {
			batch = min(batch, limit-retired)
		}
		n := 0
		err := again(func() error {
			rows, err := s.db.Query(ctx, s.sql.sweep, s.ttl.Microseconds(), batch)
			if err != nil {
				return err
			}
			n, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
			return err
		})
		if err != nil {
			return retired, s.error(ctx, "sweep", checkpoint.Key{}, err)
		}
		if retired += n; n < batch {
			break
		}
	}
	return retired, nil
}

// exec returns how many rows a statement touched.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	err = again(func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// SQLSTATEs that mean something here.
const (
	serializationFailure = "40001"
	lockNotAvailable     = "55P03"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedSchema      = "3F000"
)

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// again runs f a second time if a pool that defaults to repeatable read met a concurrent update: the statement had no
// effect, and sees the newer row now.
func again(f func() error) error {
	err := f()
	if sqlState(err) == serializationFailure {
		err = f()
	}
	return err
}

// error names what failed. It keeps the identity of err, and adds the end of ctx where the driver tells only of a
// broken connection.
func (s *Store) error(ctx context.Context, op string, k checkpoint.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrFenced) || errors.Is(err, checkpoint.ErrConflict) {
		return err
	}
	switch sqlState(err) {
	case undefinedTable, undefinedColumn, undefinedSchema:
		return fmt.Errorf("pgcheckpoint: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own: %w",
			op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"), err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if k == (checkpoint.Key{}) {
		return fmt.Errorf("pgcheckpoint: %s: %w", op, err)
	}
	return fmt.Errorf("pgcheckpoint: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
