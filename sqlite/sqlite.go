package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitetranscript"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/workflow"
)

// ErrDSN refuses a database that would lose acknowledged data, fail where it should wait, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = sqlitestore.ErrDSN

// Options configure a [DB]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all names. It is one identifier. "" means "holdfast_".
	Prefix string

	// Ages say what Sweep retires, and when.
	Ages Ages

	// StreamKeep is how many chunks of a session a stream keeps at least. 0 means stream.DefaultKeep.
	StreamKeep int

	// FailUnknown ends as failed the workflow runs that Sweep would hold as workflow.HoldUnknown.
	FailUnknown bool
}

// Ages say how long things are kept after they were last used. 0 means the default in parentheses, and a negative value
// for ever.
type Ages struct {
	// Sessions is of idle ones, with all their turns (for ever); nothing that is owned or owed. What was said in them,
	// in this file, goes with them.
	Sessions  time.Duration
	Unsettled time.Duration // those that have settled nothing; longer than a lease (a week)
	Streams   time.Duration // (an hour)
	TurnLogs  time.Duration // of turns that are over (for ever)
	Effects   time.Duration // finished ones without a Key (for ever)

	// Workflows is the most that a run is kept after its end, whatever it asked for when it started
	// (WORKFLOWS_MAX_RETENTION_DAYS, or 365 days).
	Workflows time.Duration
}

// A DB is the stores in one file. They share what stores of one database can share.
type DB struct {
	db          *sql.DB
	o           Options
	checkpoints *sqlitecheckpoint.Store
	snapshots   *sqlitesnapshot.Store
	ledger      *ledgerOf
	turnLog     *logOf
	stream      *sqlitestream.Store
	inbox       *sqliteinbox.Store
	transcripts *sqlitetranscript.Store
	workflows   *sqliteworkflow.Store
}

// forever is longer than any file is kept.
const forever = 100 * 365 * 24 * time.Hour

// New returns the stores in db, which stays the caller's, and changes no schema by itself. New panics if the prefix is
// no identifier, or too long for the names of tables: it is a constant of the program.
func New(db *sql.DB, o *Options) *DB {
	if o == nil {
		o = new(Options)
	}
	age := func(d time.Duration) time.Duration {
		if d < 0 {
			return forever
		}
		return d
	}
	checkpoints := sqlitecheckpoint.New(db, &sqlitecheckpoint.Options{
		Prefix: o.Prefix, TTL: max(o.Ages.Sessions, 0), Unsettled: age(o.Ages.Unsettled), Said: o.Ages.Sessions > 0,
	})
	return &DB{
		db: db, o: *o,
		checkpoints: checkpoints,
		snapshots:   sqlitesnapshot.New(db, &sqlitesnapshot.Options{Prefix: o.Prefix}),
		ledger: &ledgerOf{
			sqliteledger.New(db, &sqliteledger.Options{Prefix: o.Prefix}), retention.Retention{Age: o.Ages.Effects},
		},
		turnLog: &logOf{
			sqliteturnlog.New(db, &sqliteturnlog.Options{Prefix: o.Prefix}), retention.Retention{Age: o.Ages.TurnLogs},
		},
		stream: sqlitestream.New(db, &sqlitestream.Options{
			Prefix: o.Prefix, Keep: o.StreamKeep, TTL: age(o.Ages.Streams),
		}),
		inbox:       sqliteinbox.New(db, &sqliteinbox.Options{Prefix: o.Prefix}),
		transcripts: sqlitetranscript.New(db, &sqlitetranscript.Options{Prefix: o.Prefix}),
		workflows: sqliteworkflow.New(db, &sqliteworkflow.Options{
			Prefix: o.Prefix, MaxAge: o.Ages.Workflows, FailUnknown: o.FailUnknown, Processes: checkpoints.Processes,
		}),
	}
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

// Workflows keeps the runs of workflows. They and the sessions have one beat of this process.
func (db *DB) Workflows() workflow.Store { return db.workflows }

// WriteTx runs f in a transaction of the store, and writes the entry that f returns in the same transaction. So what f
// writes and the journal row commit together: flow.StepTx needs it. If the entry is refused, verdict says why, and
// nothing is written. WriteTx returns an error of f as it is. If the journal has a step of the entry already, the error
// is workflow.ErrInvalid. If SQLite has certainly rolled the transaction back because of what f did, the error is
// workflow.ErrAborted.
//
// From the beginning on, the transaction is the one writer of the file. So f should be short, and must not call the
// store.
func (db *DB) WriteTx(
	ctx context.Context, f func(tx *sql.Tx) (workflow.Entry, error),
) (verdict, err error) {
	return db.workflows.WriteTx(ctx, f)
}

// In returns the runs of workflows in a transaction of the program: what it starts and signals is there if the
// transaction commits. After an error, roll tx back. No engine hears of the transaction: it finds what is due when it
// looks the next time.
//
// tx is a transaction of any *sql.DB on the file, as for [Once]. From the first Start or Send on, tx is the one writer
// of the file.
func (db *DB) In(tx *sql.Tx) workflow.Front { return db.workflows.In(tx) }

// Once runs fn in a transaction of the program, and notes the effect and its result in the same transaction. So the
// writes of fn in tx, and the note that they were made, commit together: fn takes effect exactly once, with one commit
// in all. fn must make all its changes in tx, and must not end tx. The same effect must not be given to
// orchestrator.Once.
//
// If the effect is Completed, Once returns its result and does not call fn. If it is Skipped, the error is
// ledger.ErrSkipped. If it is Unknown, or Issued by another call than Once, the error is ledger.ErrInDoubt. If it is
// Issued to another run, that is also lock.ErrHeld. If the result was redacted, the error is ledger.ErrRedacted. The
// other errors are those of Issue. After each of these errors fn was not called.
//
// Once returns an error of fn as it is. After any error roll tx back. If tx is committed all the same, the effect is in
// doubt.
//
// The result is kept as JSON, and Once returns it as it reads back. A result that is no JSON, or too large, is
// ledger.ErrInvalid. Once redacts nothing.
//
// tx is a transaction of any *sql.DB on the file of the ledger, opened as [Open] does, or else the error is [ErrDSN].
// SQLite has one writer at a time. From Once on until tx ends, tx is this writer. Adopt, and each other write in the
// file, wait for it as long as their busy_timeout. So fn should be short.
//
// Begin tx with BEGIN IMMEDIATE, as a *sql.DB of Open does. Then tx waits for other writers when it begins. A deferred
// transaction waits for them in Once, if it has not read before. If it has read, SQLite does not let it wait: Once is
// ledger.ErrRefused at once if another connection is writing, or has written since. Nothing has happened then. Roll
// back, and begin again.
//
// Once uses no other connection than that of tx.
func Once[T any](
	ctx context.Context, db *DB, tx *sql.Tx, e ledger.Effect, fn func(context.Context) (T, error),
) (T, error) {
	return sqliteledger.Tx(ctx, db.ledger.Ledger, tx, e, fn)
}

// Up brings the schema up to date, and then checks it. Any number of processes may call it at once, also while others
// use the stores: package migrations says how. If the schema is newer than the program, this is no error of Up.
func (db *DB) Up(ctx context.Context) error { return db.tables().Up(ctx, db.db) }

// Check says what Up would have to do, by an error that wraps migrations.ErrBehind, or that the schema is newer than
// the program, by migrations.ErrNewer. It changes nothing. A program that may be rolled back takes ErrNewer for a
// warning: see migrations.Check.
func (db *DB) Check(ctx context.Context) error { return db.tables().Check(ctx, db.db) }

func (db *DB) tables() migrations.Tables {
	return migrations.Tables{Dialect: migrations.SQLite, Prefix: db.o.Prefix}
}

// Schemas are for migrations.FromSchema: the tables in the application's own set of goose migrations.
func (db *DB) Schemas() []migrations.Schemer {
	return []migrations.Schemer{
		db.checkpoints, db.snapshots, db.ledger, db.turnLog, db.stream, db.inbox, db.transcripts, db.workflows,
	}
}
