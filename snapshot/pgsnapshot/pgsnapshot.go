package pgsnapshot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/pgjoin"
	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/internal/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A DB runs statements: a *pgxpool.Pool, or a *pgx.Conn for a program of one goroutine.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a store: such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgstate.ErrEncoding

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string
	// Remember is how long Sweep leaves the fence of a session without a run; 0 means snapshot.DefaultRemember.
	Remember time.Duration

	// Functions makes the store call functions of the database instead of sending statements. Schema then creates these
	// functions too. migrations.Up does not. Use Functions on Citus, which refuses the statements, and if the driver
	// may not keep prepared statements. Elsewhere the calls are a little slower. Join wants Functions of both stores,
	// or of neither.
	Functions bool
}

// Store implements [snapshot.Store], [snapshot.Sweeper] and [snapshot.Joiner].
type Store struct {
	db       *pgstate.DB
	prefix   sqlname.Prefix
	sql      queries
	calls    *calls // nil without Options.Functions
	remember time.Duration
	sweeper  *pgsweep.Sweeper
}

var (
	_ snapshot.Store   = (*Store)(nil)
	_ snapshot.Sweeper = (*Store)(nil)
	_ snapshot.Joiner  = (*Store)(nil)
)

// New returns a store on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of tables. Otherwise New panics.
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
		panic("pgsnapshot: " + err.Error())
	}
	d := pgstate.New(db)
	s := &Store{
		db: d, prefix: p, sql: fillAll(p), remember: cmp.Or(o.Remember, snapshot.DefaultRemember),
		sweeper: pgsweep.New(d, templates.sweep, names(p)),
	}
	if o.Functions {
		s.calls = fillCalls(p)
		s.sweeper = pgsweep.NewByCalls(d, s.calls.slice, s.calls.retire, names(p))
	}
	return s
}

// Schema returns the statements that create the tables, or bring them up to date. They may be run again. They fail if
// the prefix names no schema and the search path finds the tables in another schema than it creates tables in. With
// [Options].Functions they create the functions too.
func (s *Store) Schema() string {
	schema := pgstate.Unhidden(s.prefix, "runs", "run_parts") + pgstate.Unlocked(fill(s.prefix, schemaSQL))
	if s.calls != nil {
		schema += pgstate.Once(fill(s.prefix, functionsSQL))
	}
	return schema
}

// Begin implements [snapshot.Store].
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	for {
		begun, err := s.begin(ctx, r)
		if err != nil || begun {
			return nil, s.error(ctx, "begin", r.Key, err)
		}
		found, err := s.find(ctx, r)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // the run in flight has been deleted since, or Sweep has forgotten it
		}
		if err == nil {
			err = found.intact()
		}
		if err != nil {
			return nil, s.error(ctx, "begin", r.Key, err)
		}
		return &found.Run, nil
	}
}

// begin reports whether it wrote r. It writes r in place of a deleted run, or as the first run of the session.
func (s *Store) begin(ctx context.Context, r snapshot.Run) (bool, error) {
	begin, create := s.sql.begin, s.sql.create
	args := []any{
		r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq,
		r.Fence.Epoch, r.Fence.Nonce, document(r), r.Error, microseconds(r.Pause),
	}
	if s.calls != nil {
		return s.call(ctx, s.calls.begin, withParts(args, r.Parts)...)
	}
	if len(r.Parts) > 0 {
		begin, create, args = s.sql.beginParts, s.sql.createParts, withParts(args, r.Parts)
	}
	begun, err := s.exec(ctx, begin, args...)
	if err == nil && begun == 0 {
		begun, err = s.exec(ctx, create, args...)
	}
	return begun > 0, err
}

// Adopt implements [snapshot.Store].
func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	if err := snapshot.ValidateAdopt(k, f, maxAttempts); err != nil {
		return snapshot.Run{}, err
	}
	adopt := s.adopt
	if s.calls != nil {
		adopt = s.callAdopt
	}
	r, err := adopt(ctx, k, f, maxAttempts)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return snapshot.Run{}, lock.ErrFenced
	case err != nil:
		return snapshot.Run{}, s.error(ctx, "adopt", k, err)
	case !r.inFlight:
		return snapshot.Run{}, snapshot.ErrNotFound
	case r.intact() != nil:
		return r.Run, s.error(ctx, "adopt", k, r.intact())
	case maxAttempts > 0 && r.Status == snapshot.Parked:
		return r.Run, snapshot.ErrParked
	}
	return r.Run, nil
}

// adopt makes f the session's fence, and reads the run. If f is too low, adopt returns pgx.ErrNoRows. If the run may
// have parts, adopt adopts it once more and reads the parts in the same transaction. The second adoption counts no
// attempt.
func (s *Store) adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (row, error) {
	r, err := s.adoptWhole(ctx, k, f, maxAttempts)
	if pgstate.Corrupt(err) {
		return s.unread(ctx, err, s.sql.adoptBrief, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	}
	return r, err
}

func (s *Store) adoptWhole(
	ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int,
) (adopted row, err error) {
	adopted, err = one(ctx, s.db, s.sql.adopt, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	if err != nil || !adopted.parted || !adopted.inFlight {
		return adopted, err
	}
	err = s.db.Answered(ctx, func() error {
		var b pgx.Batch
		b.Queue(
			s.sql.adopt, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts,
		).Query(func(rows pgx.Rows) (err error) {
			adopted, err = pgx.CollectExactlyOneRow(rows, scan)
			return err
		})
		b.Queue(s.sql.parts, k.Orchestrator, k.Session, f.Epoch, f.Nonce).Query(func(rows pgx.Rows) (err error) {
			adopted.Parts, err = collectParts(rows)
			return err
		})
		return s.db.SendBatch(ctx, &b).Close()
	})
	return adopted, err
}

func collectParts(rows pgx.Rows) (parts map[string]json.RawMessage, err error) {
	var name string
	var part json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&name, (*[]byte)(&part)}, func() error {
		if parts == nil {
			parts = make(map[string]json.RawMessage)
		}
		parts[name] = part
		return nil
	})
	return parts, err
}

// Save implements [snapshot.Store].
func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	if err := r.Validate(); err != nil {
		return err
	}
	save, args := s.sql.save, []any{
		r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.RequestID, r.Turn, r.Attempt, r.Base,
		string(r.Status), r.Seq, document(r), r.Error, microseconds(r.Pause),
	}
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

// whyNotSaved explains a Save which changed nothing. It returns nil if r.Seq is not above the stored Seq.
func (s *Store) whyNotSaved(ctx context.Context, r snapshot.Run) error {
	saved, err := collectOne(ctx, s.db, pgx.RowTo[bool], s.sql.saved,
		r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce, r.Seq)
	if err == nil && !saved {
		err = lock.ErrFenced
	}
	return err
}

// Delete implements [snapshot.Store].
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := snapshot.ValidateDelete(k, id, f); err != nil {
		return err
	}
	if s.calls != nil {
		return s.told(ctx, "delete", k, s.calls.delete, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
	}
	for {
		version, err := s.touch(ctx, s.sql.delete, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
		if err == nil && version > 0 {
			s.clean(ctx, k, version+1)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return s.error(ctx, "delete", k, err)
		}
		in, err := s.peek(ctx, k)
		switch {
		case err != nil:
			return s.error(ctx, "delete", k, err)
		case tooLow(f, in.Fence):
			return lock.ErrFenced
		case !in.inFlight, in.id != id && in.id != "":
			return nil
		case in.Fence != f:
			return lock.ErrFenced
		} // else f has adopted the run since
	}
}

// Join joins with a *[pgcheckpoint.Store] on the same pool or connection. A Settle then is one statement. Its commit is
// as durable as that of Append.
func (s *Store) Join(turns checkpoint.Store) snapshot.Settle {
	t, ok := turns.(*pgcheckpoint.Store)
	if !ok {
		return nil
	}
	part := pgjoin.Part{DB: s.db, SQL: s.sql.joined}
	if s.calls != nil {
		part.Call = s.calls.settle
	}
	return t.Joined(part)
}

// tooLow reports whether a session refuses f after it has seen the fence kept.
func tooLow(f, kept lock.Fence) bool {
	return f.Epoch < kept.Epoch || f.Epoch == kept.Epoch && f.Nonce != kept.Nonce
}

// peeked says who may write, according to the session's row. It is zero if there is no row.
type peeked struct {
	lock.Fence
	id       string
	inFlight bool
}

// peek explains a Delete that touched no row. It is a statement of its own: the Delete may have waited for a change
// that the snapshot of the Delete does not show.
func (s *Store) peek(ctx context.Context, k snapshot.Key) (p peeked, err error) {
	p, err = collectOne(ctx, s.db, func(row pgx.CollectableRow) (p peeked, err error) {
		err = row.Scan(&p.id, &p.Epoch, &p.Nonce, &p.inFlight)
		return p, err
	}, s.sql.peek, k.Orchestrator, k.Session)
	if errors.Is(err, pgx.ErrNoRows) {
		return peeked{}, nil
	}
	return p, err
}

// withParts appends the arguments of a statement that writes parts: two arrays, which are NULL without parts.
func withParts(args []any, parts map[string]json.RawMessage) []any {
	var names, docs []string
	for name, doc := range parts {
		names, docs = append(names, name), append(docs, string(doc))
	}
	return append(args, names, docs)
}

// exec returns how many rows a statement touched.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (touched int64, err error) {
	err = s.db.Answered(ctx, func() error {
		tag, err := s.db.Exec(ctx, sql, args...)
		touched = tag.RowsAffected()
		return err
	})
	return touched, err
}

// touch sends a statement that writes the row of a session. It returns the version of the run's payload if the run has
// or had parts, and otherwise 0. If nothing was written, touch returns pgx.ErrNoRows.
func (s *Store) touch(ctx context.Context, sql string, args ...any) (version int64, err error) {
	return collectOne(ctx, s.db, func(row pgx.CollectableRow) (version int64, err error) {
		err = row.Scan(&version, nil)
		return version, err
	}, sql, args...)
}

// clean removes the parts of the payloads before a version. Such parts are not read, so the caller does not see an
// error of clean. If clean fails, the parts take up room until clean is called for the session again, or Sweep forgets
// the session.
func (s *Store) clean(ctx context.Context, k snapshot.Key, before int64) {
	_, _ = s.db.Exec(ctx, s.sql.clean, k.Orchestrator, k.Session, before)
}

// Sweep forgets sessions whose last run was deleted longer ago than [Options].Remember. It skips rows that are locked.
// With a limit Sweep looks at a part of the sessions, and continues there the next time. If several processes sweep at
// once, one of them does the work. So Sweep costs the same, however much the table holds.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	forgotten, err = s.sweeper.Sweep(ctx, s.remember, limit)
	return forgotten, s.error(ctx, "sweep", snapshot.Key{}, err)
}

// RaiseEpochs makes the store refuse every fence that was issued up to now. It returns for how many sessions. Call it
// after a standby was promoted that may lack commits of the primary. Call it before the RaiseEpochs of the checkpoint
// store: the later claims then have fences above the fences that this RaiseEpochs leaves.
//
// With [Options].Functions RaiseEpochs takes one session after another. After an error, call it again.
func (s *Store) RaiseEpochs(ctx context.Context) (sessions int, err error) {
	if s.calls != nil {
		sessions, err = s.db.CallAll(ctx, s.calls.known, s.calls.raise)
		return sessions, s.error(ctx, "raise epochs", snapshot.Key{}, err)
	}
	sessions, err = collectOne(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	return sessions, s.error(ctx, "raise epochs", snapshot.Key{}, err)
}

// Pages grow. The first runs should come soon, and many runs should not cost a round trip each. Brief runs are small.
const firstPage, mostPage, briefPage = 16, 64, 1000

// Runs implements [snapshot.Store].
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := q.Validate(); err != nil {
			yield(snapshot.Run{}, err)
			return
		}
		after, left := q.After, q.Limit
		for size := firstPage; ; size = mostPage {
			if q.Brief {
				size = briefPage
			}
			if q.Limit > 0 {
				size = min(size, left)
			}
			page, more, err := s.page(ctx, q, after, size)
			if err != nil {
				yield(snapshot.Run{}, s.error(ctx, "runs", q.Key, err))
				return
			}
			for _, r := range page {
				if !yield(r.Run, s.error(ctx, "runs", r.Key, r.intact())) {
					return
				}
				after = r.Session
			}
			if left -= len(page); !more || q.Limit > 0 && left == 0 || q.Session != "" {
				return
			}
		}
	}
}

// page returns the next runs, and whether there may be more.
func (s *Store) page(ctx context.Context, q snapshot.Query, after string, size int) (page []row, more bool, err error) {
	page, err = s.list(ctx, q, after, size)
	more = len(page) == size
	if pgstate.Corrupt(err) && !q.Brief {
		return s.pageByRow(ctx, q, after, size, err)
	}
	return page, more, err
}

// list returns the next runs if the server can read them all.
func (s *Store) list(ctx context.Context, q snapshot.Query, after string, size int) (page []row, err error) {
	sql, args := s.sql.runs, []any{q.Orchestrator, after, string(q.Status), size}
	if q.Brief {
		sql = s.sql.runsBrief
	}
	if q.Session != "" {
		sql, args = s.sql.session, []any{q.Orchestrator, q.Session}
		if q.Brief {
			sql = s.sql.sessionBrief
		}
	}
	err = s.db.Answered(ctx, func() error {
		rows, err := s.db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, scan)
		return err
	})
	if q.Session != "" {
		page = slices.DeleteFunc(page, func(r row) bool {
			return !r.inFlight || r.Session <= after || q.Status != "" && r.Status != q.Status && r.Status.Known()
		})
	}
	return page, err
}

// A row is the run in flight, or the row that the last deleted run has left.
type row struct {
	snapshot.Run
	inFlight bool
	parted   bool // has parts, or had some
	unread   error
}

// intact returns a *snapshot.DamagedError if no store wrote the run, or if the server cannot read it. intact does not
// judge the documents, because PostgreSQL has.
func (r *row) intact() error {
	if r.unread != nil {
		return snapshot.Damaged(r.Key, r.unread)
	}
	bare := r.Run
	bare.Payload, bare.Parts = nil, nil
	return bare.Intact()
}

func scan(from pgx.CollectableRow) (r row, err error) { return scanInto(from, nil) }

// scanInto reads columns into a row, and the columns after them into more.
func scanInto(from pgx.CollectableRow, more ...any) (r row, err error) {
	var notBefore *time.Time
	var left int64
	err = from.Scan(append([]any{
		&r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base, (*string)(&r.Status),
		&r.Seq, &r.Fence.Epoch, &r.Fence.Nonce, (*[]byte)(&r.Payload), &r.Error, &notBefore, &r.StartedAt, &r.SavedAt,
		&left, &r.inFlight, &r.parted,
	}, more...)...)
	r.StartedAt, r.SavedAt = r.StartedAt.UTC(), r.SavedAt.UTC()
	if notBefore != nil {
		r.NotBefore, r.Pause = notBefore.UTC(), time.Duration(max(0, left))*time.Microsecond
	}
	return r, err
}

func one(ctx context.Context, db *pgstate.DB, sql string, args ...any) (row, error) {
	return collectOne(ctx, db, scan, sql, args...)
}

// collectOne returns pgx.ErrNoRows if there is no row.
func collectOne[T any](
	ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], sql string, args ...any,
) (t T, err error) {
	err = db.Answered(ctx, func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		t, err = pgx.CollectExactlyOneRow(rows, scan)
		return err
	})
	return t, err
}

// document returns the payload as text, which every mode of the driver sends alike; nil if there is no payload.
func document(r snapshot.Run) *string {
	if len(r.Payload) == 0 {
		return nil
	}
	text := string(r.Payload)
	return &text
}

// microseconds rounds up: a pause that is shorter than the clock's step is still a pause.
func microseconds(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }

// error adds the operation and the session to err, and keeps the identity of err.
func (s *Store) error(ctx context.Context, op string, k snapshot.Key, err error) error {
	if err == nil || errors.Is(err, lock.ErrFenced) || errors.Is(err, snapshot.ErrNotFound) {
		return err
	}
	if pgstate.Missing(err) && s.calls != nil {
		return fmt.Errorf("pgsnapshot: %s: %w: %s, %s or a function like %s: run Store.Schema of a store with "+
			"Options.Functions; if they are there, the role lacks USAGE on their schema: %w", op, snapshot.ErrSchema, s.prefix.Plain("runs"), s.prefix.Plain("run_parts"),
			s.prefix.Plain(functions[0]), err)
	}
	if pgstate.Missing(err) {
		return fmt.Errorf("pgsnapshot: %s: %w: %s or %s: run migrations.Up, or Store.Schema for a prefix of your own; "+
			"if they are there, the role lacks USAGE on their schema: %w",
			op, snapshot.ErrSchema, s.prefix.Plain("runs"), s.prefix.Plain("run_parts"), err)
	}
	if pgstate.Refused(err) {
		err = fmt.Errorf("%w: %s%w", snapshot.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k == (snapshot.Key{}) {
		return fmt.Errorf("pgsnapshot: %s: %w", op, err)
	}
	return fmt.Errorf("pgsnapshot: %s %q of %q: %w", op, k.Session, k.Orchestrator, err)
}
