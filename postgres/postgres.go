package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/postgres/pgtranscript"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
)

// ErrEncoding refuses a database whose encoding is not UTF8: it cannot store every text. The message says what to do.
var ErrEncoding = pgtext.ErrEncoding

// Options configure a [DB]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names. It may be qualified, as in "app.bot_". "" means "holdfast_".
	Prefix string

	// Ages say what Sweep retires, and when.
	Ages Ages

	// StreamKeep is how many chunks of a session a stream keeps at least. 0 means stream.DefaultKeep.
	StreamKeep int

	// Functions makes each transition of a session or a run one call of a function of the database. It is for Citus,
	// which refuses the statements, and for a driver that may not keep prepared statements. Elsewhere it is a little
	// slower. Up creates the functions too. Workflows have none: they do not work on Citus.
	Functions bool

	// FailUnknown makes Sweep end as failed the workflow runs that it would hold as workflow.HoldUnknown.
	FailUnknown bool

	// Listen opens a connection on which whoever waits for a lock is woken, and another one on which engines of
	// workflows hear what other processes do. It must not go through a pooler in transaction mode. If Listen is nil,
	// they poll. Readers of a stream listen on a connection of the pool, if it has four or more.
	Listen func(context.Context) (*pgx.Conn, error)

	// Logger gets the warnings of the locker and of the workflows. nil means slog.Default().
	Logger *slog.Logger
}

// Ages say how long things are kept after they were last used. 0 means the default in parentheses, and a negative value
// for ever.
type Ages struct {
	// Sessions is of idle ones, with all their turns (for ever); nothing that is owned or owed. What was said in them,
	// in this database, goes with them, but stays if Functions is set.
	Sessions  time.Duration
	Unsettled time.Duration // those that have settled nothing; longer than a lease (a week)
	Streams   time.Duration // (an hour)
	TurnLogs  time.Duration // of turns that are over (for ever)
	Effects   time.Duration // finished ones without a Key (for ever)

	// Workflows is the most that a workflow run may be kept after its end (WORKFLOWS_MAX_RETENTION_DAYS, or 365 days).
	// A run says itself for how long.
	Workflows time.Duration
}

// A DB is the stores in one database. They share what stores of one database can share.
type DB struct {
	pool        *pgxpool.Pool
	o           Options
	checkpoints *pgcheckpoint.Store
	snapshots   *pgsnapshot.Store
	ledger      *ledgerOf
	turnLog     *logOf
	stream      *pgstream.Store
	inbox       *pginbox.Store
	transcripts *pgtranscript.Store
	locker      *pglocker.Locker
	workflows   *pgworkflow.Store
}

// forever is longer than any database is kept.
const forever = 100 * 365 * 24 * time.Hour

// New returns the stores in the database of pool, which stays the caller's: a DB never opens, closes or pings it, and
// changes no schema by itself. New panics if the prefix is not one or two identifiers, short enough for the names of
// tables: it is a constant of the program.
func New(pool *pgxpool.Pool, o *Options) *DB {
	if o == nil {
		o = new(Options)
	}
	age := func(d time.Duration) time.Duration {
		if d < 0 {
			return forever
		}
		return d
	}
	db := &DB{
		pool: pool, o: *o,
		checkpoints: pgcheckpoint.New(pool, &pgcheckpoint.Options{
			Prefix: o.Prefix, TTL: max(o.Ages.Sessions, 0), Unsettled: age(o.Ages.Unsettled), Functions: o.Functions,
			Said: o.Ages.Sessions > 0,
		}),
		snapshots: pgsnapshot.New(pool, &pgsnapshot.Options{Prefix: o.Prefix, Functions: o.Functions}),
		stream: pgstream.New(pool, &pgstream.Options{
			Prefix: o.Prefix, Keep: o.StreamKeep, TTL: age(o.Ages.Streams),
		}),
		inbox:       pginbox.New(pool, &pginbox.Options{Prefix: o.Prefix}),
		transcripts: pgtranscript.New(pool, &pgtranscript.Options{Prefix: o.Prefix}),
		locker:      pglocker.New(pool, &pglocker.Options{Prefix: o.Prefix, Listen: o.Listen, Logger: o.Logger}),
	}
	db.workflows = pgworkflow.New(pool, &pgworkflow.Options{
		Prefix: o.Prefix, MaxAge: o.Ages.Workflows, FailUnknown: o.FailUnknown, Listen: o.Listen, Logger: o.Logger,
		Processes: db.checkpoints.Processes,
	})
	db.ledger = &ledgerOf{
		pgledger.New(pool, &pgledger.Options{Prefix: o.Prefix}),
		retention.Retention{Age: o.Ages.Effects, Turn: db.turn("effects")},
	}
	db.turnLog = &logOf{
		pgturnlog.New(pool, &pgturnlog.Options{Prefix: o.Prefix}),
		retention.Retention{Age: o.Ages.TurnLogs, Turn: db.turn("logged")},
	}
	return db
}

// Bots returns the names of the bots that have a session here, in byte order. It costs by the bots.
func (db *DB) Bots(ctx context.Context) ([]string, error) { return db.checkpoints.Bots(ctx) }

// Checkpoints keeps the settled turns, and issues the fences.
func (db *DB) Checkpoints() checkpoint.Store { return db.checkpoints }

// Snapshots keeps the runs in flight.
func (db *DB) Snapshots() snapshot.Store { return db.snapshots }

// Ledger keeps the effects. See also [Once].
func (db *DB) Ledger() ledger.Ledger { return db.ledger }

// TurnLog keeps what each turn passed.
func (db *DB) TurnLog() turnlog.Lister { return db.turnLog }

// Stream keeps what readers are shown while a turn runs.
func (db *DB) Stream() stream.Store { return db.stream }

// Inbox keeps the answers of people until they are taken.
func (db *DB) Inbox() inbox.Store { return db.inbox }

// Transcripts keeps what was said in sessions.
func (db *DB) Transcripts() transcript.Store { return db.transcripts }

// Locker queues callers of one session. A lock is a row in a table that is not logged. It ends by the clock of the
// server 30 seconds after its owner has died.
func (db *DB) Locker() lock.Locker { return db.locker }

// Once does an effect in a transaction of the caller: fn writes in tx, and so does the ledger. Both commit together, or
// neither does. So what fn writes in this database happens exactly once.
//
// If e has a result, Once returns that result and does not call fn. Otherwise Once calls fn and keeps its result, which
// must be JSON, as Completed. The fence of e is checked as by Issue. Until the end of tx another owner cannot adopt the
// run, and a second Once of the same effect waits.
//
// After any error the caller has to roll tx back. An error of fn is returned as it is. If a person has said that e
// shall not happen, it is ledger.ErrSkipped. If orchestrator.Once was used for the same effect and its outcome is not
// known, it is ledger.ErrInDoubt, together with lock.ErrHeld if the effect is Issued to another run. If
// orchestrator.Once has redacted the result, it is ledger.ErrRedacted. A result that is no JSON or is too large is
// ledger.ErrInvalid.
//
// tx may have any level of isolation. If the level is not READ COMMITTED, a new owner must have called Adopt before. If
// its connection uses QueryExecModeExec or the simple protocol, its DateStyle has to be ISO, which is the default of
// PostgreSQL. Otherwise the times of the ledger cannot be read, and Once returns ledger.ErrInvalid.
func Once[T any](
	ctx context.Context, db *DB, tx pgx.Tx, e ledger.Effect, fn func(context.Context) (T, error),
) (T, error) {
	return pgledger.Tx(ctx, db.ledger.Ledger, tx, e, fn)
}
