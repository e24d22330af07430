package pgstate

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/sqlname"
)

// A Pool is a *pgxpool.Pool, or a *pgx.Conn for one goroutine.
type Pool interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// A DB runs the statements of a store at READ COMMITTED, each call in a transaction of its own. The default of the role
// or the database may be another level. The first call looks at that, and so does a call that fails with
// SerializationFailure, which never happens at READ COMMITTED. From then on the DB frames every call by BEGIN and
// COMMIT, in the same round trip.
//
// If the driver asks for results as text, the frame also sets how times are written: the default of the role or the
// database may be a style that nobody can read back.
type DB struct {
	Prefix sqlname.Prefix

	names Names
	pool  Pool
	// encoded says that the encoding of the database is known to be right.
	encoded atomic.Bool
	framed  atomic.Bool
	text    atomic.Bool // results come as text

	inside bool // the pool is a transaction of the caller
}

// Names are those of one store in the database.
type Names struct {
	Prefix    string // of all names; it may name a schema
	Tables    []string
	Indexes   []string
	Functions []string // nil if the store calls none
}

// New returns a DB on pool. pool stays the caller's. New panics if the prefix is not one or two identifiers that leave
// room for the names: it is a constant of the program.
func New(pool Pool, n Names) *DB {
	p, err := sqlname.Parse(n.Prefix, slices.Concat(n.Tables, n.Indexes, n.Functions)...)
	if err != nil {
		panic("postgres: " + err.Error())
	}
	return &DB{pool: pool, names: n, Prefix: p}
}

// In returns a DB that sends each statement once, in a transaction of the caller. After an error the caller has to roll
// the transaction back.
func (d *DB) In(tx pgx.Tx) *DB { return &DB{Prefix: d.Prefix, names: d.names, pool: tx, inside: true} }

// Pairs returns pairs for a strings.Replacer: what all stores may have in braces, and each table and index.
func (d *DB) Pairs() []string {
	pairs := []string{
		"{durable}", Durable, "{durableAgain}", DurableAgain, "{firm}", Firm, "{level}", Level, "{lazy}", Lazy,
		"{clock}", clock,
	}
	for _, t := range d.names.Tables {
		pairs = append(pairs, "{"+t+"}", d.Prefix.Table(t))
	}
	for _, i := range d.names.Indexes {
		pairs = append(pairs, "{"+i+"}", d.Prefix.Index(i))
	}
	return pairs
}

// Shares reports whether d and e have one pool, so that a statement of one may write for the other.
func (d *DB) Shares(e *DB) bool {
	return reflect.ValueOf(d.pool).Comparable() && reflect.ValueOf(e.pool).Comparable() && d.pool == e.pool
}

// Again runs f. If f met a concurrent change that its transaction may not see, f had no effect, and Again runs it a
// second time. Again also repeats f after an internal error, which may be temporary. Only the second one counts as
// Corrupt. Before the first f, Again looks at the encoding of the database.
func (d *DB) Again(ctx context.Context, f func() error) error {
	if d.inside {
		return f()
	}
	if err := d.fit(ctx); err != nil {
		return err
	}
	err := f()
	switch Of(err) {
	case SerializationFailure:
		d.framed.Store(true)
		err = f()
	case internalError:
		err = f()
	}
	return err
}

// Frame makes the DB frame every call from now on. It is for a store that sees by itself that the default is another
// level, where no SerializationFailure would show it.
func (d *DB) Frame() { d.framed.Store(true) }

// Answered is Again for statements of ctx. If ctx has ended by the time that f succeeds, Answered returns an error. The
// reason is that a pool may end a statement by a cancel request. If the request finds a commit that waits for a
// standby, PostgreSQL stops the wait and answers as if the standby had the commit.
func (d *DB) Answered(ctx context.Context, f func() error) error {
	return CutOff(ctx, d.Again(ctx, f))
}

// CutOff returns err. If err is nil and ctx has ended, CutOff returns an error: see Answered.
func CutOff(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return errCutOff
	}
	return err
}

// fit refuses a database that cannot store every text. It also finds out whether results come as text, and frames the
// calls if they, or the level of isolation, ask for it.
func (d *DB) fit(ctx context.Context) error {
	if d.encoded.Load() {
		return nil
	}
	rows, err := d.pool.Query(ctx,
		"SELECT current_setting('server_encoding'), 0, current_setting('transaction_isolation') <> 'read committed'")
	if err != nil {
		return err
	}
	var stricter bool
	encoding, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (encoding string, err error) {
		if row.FieldDescriptions()[1].Format == pgx.TextFormatCode { // else integers are binary, and so are times
			d.text.Store(true)
			d.framed.Store(true)
		}
		err = row.Scan(&encoding, nil, &stricter)
		return encoding, err
	})
	if stricter {
		d.framed.Store(true)
	}
	if err == nil {
		err = pgtext.Encoded(encoding)
	}
	d.encoded.Store(err == nil)
	return err
}

// Exec calls Exec of the pool, in a frame if the DB frames its calls.
func (d *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !d.framed.Load() {
		return d.pool.Exec(ctx, sql, args...)
	}
	results := d.SendBatch(ctx, batch(sql, args))
	tag, err := results.Exec()
	return tag, first(err, results.Close())
}

// Query calls Query of the pool, in a frame if the DB frames its calls.
func (d *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !d.framed.Load() {
		return d.pool.Query(ctx, sql, args...)
	}
	results := d.SendBatch(ctx, batch(sql, args))
	rows, err := results.Query()
	if err != nil {
		return rows, first(err, results.Close())
	}
	return &framedRows{Rows: rows, results: results}, nil
}

// SendBatch calls SendBatch of the pool, in a frame if the DB frames its calls.
func (d *DB) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if !d.framed.Load() {
		return d.pool.SendBatch(ctx, b)
	}
	conn, _ := d.pool.(*pgx.Conn)
	if err := rollback(ctx, conn); err != nil {
		return failed{err: err}
	}
	framed := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(b.QueuedQueries)+3)}
	framed.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	if d.text.Load() {
		framed.Queue("SET LOCAL DateStyle = 'ISO'")
	}
	framed.QueuedQueries = append(framed.QueuedQueries, b.QueuedQueries...)
	framed.Queue("COMMIT")
	results := d.pool.SendBatch(ctx, framed)
	if conn != nil {
		results = onConn{results, ctx, conn}
	}
	for range len(framed.QueuedQueries) - len(b.QueuedQueries) - 1 {
		if _, err := results.Exec(); err != nil {
			return failed{results, first(err, results.Close())}
		}
	}
	return results
}

// onConn is a frame on a connection that others use too. If the frame fails, it leaves no failed transaction to them. A
// pool closes such a connection.
type onConn struct {
	pgx.BatchResults
	ctx  context.Context //nolint:containedctx // of the call that the results belong to
	conn *pgx.Conn
}

func (r onConn) Close() error {
	err := r.BatchResults.Close()
	return first(err, rollback(r.ctx, r.conn))
}

// rollback ends a frame that failed. It does nothing without a connection. If ctx has ended, the next frame calls it
// again.
func rollback(ctx context.Context, c *pgx.Conn) error {
	if c == nil || c.IsClosed() || c.PgConn().TxStatus() != 'E' {
		return nil
	}
	_, err := c.Exec(ctx, "ROLLBACK")
	return err
}

func batch(sql string, args []any) *pgx.Batch {
	b := new(pgx.Batch)
	b.Queue(sql, args...)
	return b
}

func first(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// framedRows are the rows of the only statement of a frame. The frame commits when the rows have been read.
type framedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

// Next ends the frame after the last row.
func (r *framedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close ends the frame.
func (r *framedRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

// Err returns the error of the rows, or else of the frame.
func (r *framedRows) Err() error { return first(r.Rows.Err(), r.err) }

// failed is the result of a batch that was not begun.
type failed struct {
	pgx.BatchResults
	err error
}

func (f failed) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failed) Query() (pgx.Rows, error)         { return nil, f.err }
func (f failed) QueryRow() pgx.Row                { return failedRow{f.err} }
func (f failed) Close() error                     { return f.err }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
