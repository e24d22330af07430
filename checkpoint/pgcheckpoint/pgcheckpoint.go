package pgcheckpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgstate"
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
	c, err := s.claim(ctx, k, r, s.sql.claim)
	if err == nil && c.Born == 0 {
		c, err = s.claim(ctx, k, r, s.sql.guard, s.sql.create)
	}
	if err != nil {
		return checkpoint.Claimed{}, s.error(ctx, "claim", k, err)
	}
	return c, nil
}

// claim runs one of the statements that claim, after a guard if it needs one. Born is 0 if there is no such session.
func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest, statements ...string) (c checkpoint.Claimed, err error) {
	err = pgstate.Again(func() error {
		var b pgx.Batch
		if len(statements) > 1 {
			b.Queue(statements[0], k.Orchestrator, k.Session)
		}
		b.Queue(statements[len(statements)-1], k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(), r.Steal)
		b.Queue(s.sql.newest, k.Orchestrator, k.Session, r.Nonce)
		if r.RequestID != "" {
			b.Queue(s.sql.answered, k.Orchestrator, k.Session, r.Nonce, r.RequestID)
		}
		results := s.db.SendBatch(ctx, &b)
		if len(statements) > 1 {
			_, err = results.Exec()
		}
		if err == nil {
			c, err = readClaim(results, k, r)
		}
		return errors.Join(err, results.Close())
	})
	return c, err
}

func readClaim(results pgx.BatchResults, k checkpoint.Key, r checkpoint.ClaimRequest) (c checkpoint.Claimed, err error) {
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: r.Nonce}}
	var last int
	err = results.QueryRow().Scan(&c.Fence.Epoch, &c.Born, &last, &c.Summarized, &c.Delivered)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, lock.ErrHeld
	}
	if err != nil || c.Born == 0 {
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
		err = s.whyNot(ctx, l, cp.RunID, o)
	}
	return s.error(ctx, "append", l.Key, err)
}

// whyNot explains an Append that found no head to move. It looks for the run by its id: who took the session over may
// have settled it under another number.
func (s *Store) whyNot(ctx context.Context, l checkpoint.Lease, run string, o checkpoint.AppendOptions) error {
	var settled, ours bool
	err := pgstate.Again(func() error {
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
		return o.Known()
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
	err := pgstate.Again(func() error {
		var b pgx.Batch
		b.Queue(s.sql.deleteGuard, k.Orchestrator, k.Session)
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
		err := pgstate.Again(func() error {
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
	err = pgstate.Again(func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, err
}

// error names what failed. It keeps the identity of err, and adds the end of ctx where the driver tells only of a
// broken connection.
func (s *Store) error(ctx context.Context, op string, k checkpoint.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrFenced) || errors.Is(err, checkpoint.ErrConflict) {
		return err
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgcheckpoint: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own: %w",
			op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"), err)
	}
	err = pgstate.Ended(ctx, err)
	if k == (checkpoint.Key{}) {
		return fmt.Errorf("pgcheckpoint: %s: %w", op, err)
	}
	return fmt.Errorf("pgcheckpoint: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
