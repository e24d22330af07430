package pgstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// A DB runs statements, also several at once: a *pgxpool.Pool.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// ErrEncoding refuses a database whose encoding is not UTF8, at the first use of a store: such a database cannot store
// every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins the names of the tables. It may be qualified, as in "app.bot_"; "" means "holdfast_".
	Prefix string

	// Keep is how many chunks of a session are kept at least. 0 or less means stream.DefaultKeep.
	Keep int

	// TTL is how long the chunks of a session are kept after its last Append. 0 means stream.DefaultTTL.
	TTL time.Duration

	// Poll is how often the store asks for readers that wait, while it cannot listen. 0 means 100ms.
	Poll time.Duration
}

// A Store is a [stream.Store] on PostgreSQL.
type Store struct {
	db      *pgstate.DB
	prefix  sqlname.Prefix
	sql     queries
	keep    int64
	ttl     time.Duration
	channel string
	sweeper *pgsweep.Sweeper
	hub     *tail.Hub
}

var (
	_ stream.Store   = (*Store)(nil)
	_ stream.Sweeper = (*Store)(nil)
)

// New returns a store on db. The prefix, a constant of the program, is one or two identifiers that leave room for the
// names of tables. Otherwise New panics.
func New(db DB, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	p, err := sqlname.Parse(o.Prefix, suffixes...)
	if err != nil {
		panic("pgstream: " + err.Error())
	}
	s := &Store{
		db: pgstate.New(db), prefix: p, channel: channel(p),
		keep: int64(stream.KeepOf(o.Keep)), ttl: cmp.Or(max(o.TTL, 0), stream.DefaultTTL),
	}
	names := names(p, s.ttl)
	s.sql = fillAll(names)
	s.sweeper = pgsweep.NewByCalls(s.db, templates.slice, templates.remove, names)
	from := tail.Source{ID: id, Ask: s.ask, Poll: cmp.Or(max(o.Poll, 0), 100*time.Millisecond)}
	if pool, ok := db.(pool); ok {
		from.Listen = (&listener{pool: pool, channel: s.channel}).listen
	}
	s.hub = tail.NewHub(from)
	return s
}

// channel returns the name of the channel of the notifications. It may have 63 bytes.
func channel(p sqlname.Prefix) string {
	name := p.Plain("streams")
	return name[max(0, len(name)-63):]
}

// id returns the hash that notifications name a session by.
func id(k stream.Key) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(k.Orchestrator)) + " " + k.Orchestrator + k.Session))
	return hex.EncodeToString(sum[:16])
}

// error adds the operation and its session to err, and keeps the identity of err.
func (s *Store) error(ctx context.Context, op string, k stream.Key, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stream.ErrGone):
		return fmt.Errorf("pgstream: %s %q: %w", op, k.Session, err)
	case pgstate.Missing(err):
		return fmt.Errorf("pgstream: %s: %w: %s, %s or %s: run migrations.Up, or Store.Schema for a prefix of your own"+
			"; if they are there, the role lacks USAGE on their schema: %w", op, stream.ErrSchema,
			s.prefix.Plain("streams"), s.prefix.Plain("chunks"), s.prefix.Plain("streams_sweep"), err)
	case pgstate.Refused(err):
		err = fmt.Errorf("%w: %s%w", stream.ErrRefused, pgstate.Remedy(err), err)
	}
	err = pgstate.Ended(ctx, err)
	if k.Session == "" {
		return fmt.Errorf("pgstream: %s: %w", op, err)
	}
	return fmt.Errorf("pgstream: %s %q: %w", op, k.Session, err)
}

// one returns pgx.ErrNoRows if there is no row.
func one[T any](
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
