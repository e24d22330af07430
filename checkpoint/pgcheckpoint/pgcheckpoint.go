package pgcheckpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgjoin"
	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/internal/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a store. Such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgstate.ErrEncoding

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_". "" means "holdfast_".
	Prefix string
	// TTL is how long a session is idle before Sweep retires it. If TTL is 0, sessions with a settled turn stay.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration

	// Functions makes the store call functions of the database instead of sending statements. Schema then creates these
	// functions too, and migrations.Up does not. Functions are for Citus, which refuses the statements, and for a
	// driver that may not keep prepared statements. Elsewhere they are a little slower. A joined store of runs must
	// have Functions too.
	Functions bool
}

// Store implements [checkpoint.Store], [checkpoint.Sweeper] and [checkpoint.Watcher].
type Store struct {
	db     *pgstate.DB
	prefix sqlname.Prefix
	sql    queries
	calls  *calls // nil without Options.Functions
	// ttl is for sessions with a settled turn. 0 means for ever.
	ttl     time.Duration
	sweeper *pgsweep.Sweeper
}

var (
	_ checkpoint.Store   = (*Store)(nil)
	_ checkpoint.Sweeper = (*Store)(nil)
	_ checkpoint.Watcher = (*Store)(nil)
)

// New returns a store on db. It panics if the prefix is not one or two identifiers, short enough for the names of
// tables: a prefix is a constant of the program.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	named := suffixes
	if o.Functions {
		named = slices.Concat(suffixes, functions)
	}
	p, err := sqlname.Parse(o.Prefix, named...)
	if err != nil {
		panic("pgcheckpoint: " + err.Error())
	}
	d := pgstate.New(db)
	unsettled := strings.NewReplacer("{unsettled}",
		strconv.FormatInt(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled).Microseconds(), 10))
	sweep := unsettled.Replace(templates.sweep)
	s := &Store{db: d, prefix: p, sql: fillAll(p), ttl: o.TTL, sweeper: pgsweep.New(d, sweep, names(p))}
	if o.Functions {
		s.calls = fillCalls(p)
		s.sweeper = pgsweep.NewByCalls(d, unsettled.Replace(s.calls.slice), unsettled.Replace(s.calls.retire), names(p))
	}
	return s
}

// Schema returns the statements that create the tables, or bring them up to date. They may be run again. Suppose that
// the prefix names no schema, and that the tables are in another schema of the search path than new tables would be.
// Then the statements fail. With [Options].Functions they create the functions too.
func (s *Store) Schema() string {
	schema := pgstate.Unhidden(s.prefix, "sessions", "turns") + pgstate.Unlocked(fill(s.prefix, schemaSQL))
	if s.calls != nil {
		schema += pgstate.Once(fill(s.prefix, functionsSQL))
	}
	return schema
}

// Claim claims and reads in one pipeline. If the session is new, Claim creates it in a second round trip.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := errors.Join(k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	for {
		c, err := s.claim(ctx, k, r)
		if pgstate.Corrupt(err) {
			c, err = s.claimUnread(ctx, k, r, err)
		}
		// By a call, no row means that r.From is not the owner.
		if errors.Is(err, pgx.ErrNoRows) && r.From == (lock.Fence{}) {
			c, err = s.create(ctx, k, r)
			if errors.Is(err, pgx.ErrNoRows) {
				if c, err = s.headless(ctx, k, r); err == nil {
					continue // another claim created it first
				}
			}
		}
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, checkpoint.ErrDamaged):
			return checkpoint.Claimed{Lease: c.Lease}, s.error(ctx, "claim", k, err)
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, pgx.ErrNoRows):
			err = new(checkpoint.HeldError)
		}
		return checkpoint.Claimed{}, s.error(ctx, "claim", k, err)
	}
}

// errOvertaken says that a claim was refused because of a change while it waited. The owner of the session is unknown
// until the claim is sent again.
var errOvertaken = errors.New("claim was overtaken")

// claim claims a session that exists. If there is no such session, claim returns pgx.ErrNoRows.
func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if s.calls != nil {
		return s.callClaim(ctx, k, r, false)
	}
	return s.sendClaim(ctx, k, r, func(b *pgx.Batch) { s.queueClaim(b, k, r) })
}

func (s *Store) queueClaim(b *pgx.Batch, k checkpoint.Key, r checkpoint.ClaimRequest) {
	b.Queue(s.sql.claim, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(),
		r.From.Epoch, r.From.Nonce, r.Born)
}

// headless returns a lease for Delete. If turns of the session are kept without a head, headless also returns a
// *checkpoint.DamagedError.
func (s *Store) headless(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: r.Nonce}}
	found, err := collect(ctx, s.db, func(row pgx.CollectableRow) (headless bool, err error) {
		return headless, row.Scan(&headless, &c.Fence.Epoch)
	}, s.sql.headless, k.Orchestrator, k.Session)
	if err == nil && found[0] {
		err = checkpoint.Damaged(k, checkpoint.ErrNoHead)
	}
	return c, err
}

// create claims a session that did not exist. If the session exists by now, and is owned, create returns pgx.ErrNoRows.
func (s *Store) create(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return s.sendClaim(ctx, k, r, func(b *pgx.Batch) {
		b.Queue(s.sql.guard, k.Orchestrator, k.Session)
		b.Queue(s.sql.create, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds())
	})
}

// sendClaim sends the statements that queue adds and, in the same pipeline, the statements that read for the new owner.
// The last statement of queue claims.
func (s *Store) sendClaim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest, queue func(*pgx.Batch),
) (c checkpoint.Claimed, err error) {
	err = s.db.Answered(ctx, func() error {
		var b pgx.Batch
		queue(&b)
		before := b.Len() - 1
		b.Queue(s.sql.newest, k.Orchestrator, k.Session, r.Nonce)
		if r.RequestID != "" {
			b.Queue(s.sql.answered, k.Orchestrator, k.Session, r.Nonce, r.RequestID)
		}
		results := s.db.SendBatch(ctx, &b)
		for err = nil; err == nil && before > 0; before-- {
			_, err = results.Exec()
		}
		if err == nil {
			c, err = readClaim(results, k, r)
		}
		return errors.Join(err, results.Close())
	})
	return c, err
}

func readClaim(
	results pgx.BatchResults, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	c, last, err := scanHead(results.QueryRow(), k)
	if err != nil {
		return c, err
	}
	if err := c.Intact(last); err != nil {
		return c, err
	}
	if c.Last, err = scanOne(results.Query()); err != nil {
		return c, err
	}
	if last >= 0 && c.Last == nil {
		return c, checkpoint.DamagedTurn(k, last, errors.New("it is missing, and it is the newest"))
	}
	if r.RequestID != "" {
		c.Answered, err = scanOne(results.Query())
	}
	for _, cp := range []*checkpoint.Checkpoint{c.Last, c.Answered} {
		if cp != nil && err == nil {
			err = intact(*cp, k)
		}
	}
	return c, err
}

// scanHead reads the head after a claim, and the number of the newest turn. Its error says why the claim was refused.
func scanHead(row pgx.Row, k checkpoint.Key) (c checkpoint.Claimed, last int, err error) {
	c.Key = k
	var verdict, owner string
	err = row.Scan(&verdict, &c.Fence.Epoch, &c.Fence.Nonce, &owner,
		&c.Born, &last, &c.Summarized, &c.Delivered, &c.Failed)
	if err == nil {
		err = refusal(verdict, owner, c.Fence)
	}
	return c, last, err
}

// refusal returns why a claim was not granted, or nil if it was.
func refusal(verdict, owner string, f lock.Fence) error {
	switch verdict {
	case "granted":
		return nil
	case "held":
		return &checkpoint.HeldError{Owner: owner, Fence: f}
	case "free":
		return new(checkpoint.HeldError)
	}
	return errOvertaken
}

// Append is one statement. If the statement finds no head to move, a second one finds out why. With
// [Options].Functions, one call does both.
func (s *Store) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	sql := s.sql.append
	if s.calls != nil {
		sql = s.calls.append
	}
	_, err := s.append(ctx, sql, l, cp, o)
	return err
}

// Joined returns the Append of s with a part of [pgsnapshot.Store.Join] in its statement. If the part is of another
// pool or connection, Joined returns nil.
//
// [pgsnapshot.Store.Join]: https://pkg.go.dev/github.com/holdfast-go/holdfast/snapshot/pgsnapshot#Store.Join
func (s *Store) Joined(part pgjoin.Part) func(
	context.Context, checkpoint.Lease, checkpoint.Checkpoint, checkpoint.AppendOptions,
) (forgotten bool, err error) {
	if !part.DB.Shares(s.db) || (part.Call == "") != (s.calls == nil) {
		return nil
	}
	sql := strings.ReplaceAll(s.sql.settle, "{part}", part.SQL)
	if s.calls != nil {
		sql = strings.ReplaceAll(part.Call, "{append}", s.prefix.Table(functionNamed("session_append")))
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		return s.append(ctx, sql, l, cp, o)
	}
}

// append sends sql, which is the statement of Append, perhaps with a part.
func (s *Store) append(
	ctx context.Context, sql string, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) (forgotten bool, err error) {
	keep, err := o.Kept()
	if err := errors.Join(l.Validate(), cp.Validate(), err); err != nil {
		return false, err
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
	args := []any{
		l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.Turn,
		string(cp.State), payload, route, cp.Signature, cp.Version, cp.RunID, cp.RequestID, keep, o.Owes, o.Release,
	}
	if s.calls != nil {
		forgotten, err = s.callAppend(ctx, o, sql, args...)
	} else {
		forgotten, err = s.sendAppend(ctx, sql, args...)
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.whyNot(ctx, l, cp, o)
		}
	}
	if pgstate.Of(err) == pgstate.UniqueViolation {
		err = checkpoint.DamagedTurn(l.Key, cp.Turn,
			errors.New("it is there, and the head says that it is not settled"))
	}
	return forgotten, s.error(ctx, "append", l.Key, err)
}

// sendAppend returns pgx.ErrNoRows if the statement found no head to move.
func (s *Store) sendAppend(ctx context.Context, sql string, args ...any) (forgotten bool, err error) {
	settled, err := collect(ctx, s.db, func(row pgx.CollectableRow) (forgotten bool, err error) {
		err = row.Scan(&forgotten, nil)
		return forgotten, err
	}, sql, args...)
	switch {
	case err != nil:
		return false, err
	case len(settled) == 0:
		return false, pgx.ErrNoRows
	}
	return settled[0], nil
}

// whyNot explains an Append that found no head to move. It looks for the run by its id: a new owner may have settled
// the run under another number.
func (s *Store) whyNot(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	var settled, ours bool
	err := s.db.Answered(ctx, func() error {
		rows, err := s.db.Query(ctx, s.sql.explain,
			l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.RunID, cp.Turn)
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

// Mark raises counters, counts a failed delivery, or releases, in one statement.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if err := errors.Join(l.Validate(), m.Validate()); err != nil {
		return err
	}
	args := []any{
		l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce,
		m.Summarized, m.Delivered, m.Release, (m.Retry + time.Microsecond - 1).Microseconds(),
	}
	var marked bool
	var err error
	if s.calls != nil {
		marked, err = call[bool](ctx, s.db, s.calls.mark, args...)
	} else {
		marked, err = s.exec(ctx, s.sql.mark, args...)
	}
	if err == nil && !marked && m != (checkpoint.Marks{Release: true}) {
		err = lock.ErrFenced
	}
	return s.error(ctx, "mark", l.Key, err)
}

// Delete removes the head and the turns in one transaction.
func (s *Store) Delete(ctx context.Context, l checkpoint.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	var deleted bool
	var err error
	if s.calls != nil {
		deleted, err = call[bool](ctx, s.db, s.calls.delete, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce)
	} else {
		deleted, err = s.sendDelete(ctx, l)
	}
	if err == nil && !deleted {
		err = lock.ErrFenced
	}
	return s.error(ctx, "delete", l.Key, err)
}

// sendDelete reports whether the session is gone.
func (s *Store) sendDelete(ctx context.Context, l checkpoint.Lease) (deleted bool, err error) {
	fenced := false
	err = s.db.Answered(ctx, func() error {
		var b pgx.Batch
		b.Queue(s.sql.deleteGuard, l.Orchestrator, l.Session)
		b.Queue(s.sql.deleteHead, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce)
		b.Queue(s.sql.deleteTurns, l.Orchestrator, l.Session).
			QueryRow(func(row pgx.Row) error { return row.Scan(&fenced) })
		return s.db.SendBatch(ctx, &b).Close()
	})
	return !fenced, err
}

// forEver is longer than any session is idle.
const forEver = 200 * 365 * 24 * time.Hour

// Sweep retires idle sessions. It passes over sessions that are locked. With a limit it looks at a part of the
// sessions, and goes on there the next time. Of several processes only one sweeps. So the cost does not grow with the
// table.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	ttl := s.ttl
	if ttl <= 0 {
		ttl = forEver
	}
	retired, err = s.sweeper.Sweep(ctx, ttl, limit)
	return retired, s.error(ctx, "sweep", checkpoint.Key{}, err)
}

// exec reports whether a statement touched a row.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (touched bool, err error) {
	err = s.db.Answered(ctx, func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		touched = tag.RowsAffected() > 0
		return err
	})
	return touched, err
}

// error adds the name of the operation that failed. It keeps the identity of err. If the driver only tells of a broken
// connection, error adds the end of ctx.
func (s *Store) error(ctx context.Context, op string, k checkpoint.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrFenced) ||
		errors.Is(err, checkpoint.ErrConflict) {
		return err
	}
	if pgstate.Missing(err) && s.calls != nil {
		return fmt.Errorf("pgcheckpoint: %s: %w: %s, %s or a function like %s: run Store.Schema of a store with "+
			"Options.Functions; if they are there, the role lacks USAGE on their schema: %w", op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"),
			s.prefix.Plain(functionNamed("session_claim")), err)
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgcheckpoint: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own; "+
			"if they are there, the role lacks USAGE on their schema: %w",
			op, checkpoint.ErrSchema, s.prefix.Plain("sessions"), s.prefix.Plain("turns"), err)
	}
	if pgstate.Refused(err) {
		err = fmt.Errorf("%w: %s%w", checkpoint.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k == (checkpoint.Key{}) {
		return fmt.Errorf("pgcheckpoint: %s: %w", op, err)
	}
	return fmt.Errorf("pgcheckpoint: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
