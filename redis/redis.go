package redis

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/redis/redistranscript"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
)

// ErrEviction refuses a server that deletes keys when its memory is full. The message names the setting to change.
var ErrEviction = redisstore.ErrEviction

// Options configure a [DB]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins all keys. It is [A-Za-z0-9_.:-]{1,64}. "" means "holdfast:".
	Prefix string

	// Ages say what expires, and when.
	Ages Ages

	// StreamKeep is how many chunks of a session a stream keeps at least. 0 means stream.DefaultKeep.
	StreamKeep int

	// Logger gets the warnings of the locker. nil means slog.Default().
	Logger *slog.Logger
}

// Ages say how long things are kept after they were last used. 0 means the default in parentheses, and a negative value
// for ever.
type Ages struct {
	// Sessions is of idle ones, with all their turns (for ever); nothing that is owned or owed. If it is shorter than
	// the longest pause between two messages, live sessions are lost. What was said in them stays until a Sweep.
	Sessions  time.Duration
	Unsettled time.Duration // those that have settled nothing; longer than a lease (a week)
	Streams   time.Duration // (an hour)
}

// A DB is the stores in one Redis.
type DB struct {
	client      redis.UniversalClient
	prefix      string
	checkpoints *redischeckpoint.Store
	snapshots   *redissnapshot.Store
	stream      *redisstream.Store
	inbox       *redisinbox.Store
	transcripts *redistranscript.Store
	locker      *redislocker.Locker
}

// forever is longer than any server is kept.
const forever = 100 * 365 * 24 * time.Hour

// New returns the stores in the Redis of client, which stays the caller's: a DB never closes or pings it. New panics if
// the prefix is invalid: it is a constant of the program.
func New(client redis.UniversalClient, o *Options) *DB {
	if o == nil {
		o = new(Options)
	}
	age := func(d time.Duration) time.Duration {
		if d < 0 {
			return forever
		}
		return d
	}
	prefix := redisstore.Prefix(o.Prefix)
	transcripts := redistranscript.New(client, &redistranscript.Options{Prefix: prefix})
	return &DB{
		client: client, prefix: prefix,
		checkpoints: redischeckpoint.New(client, &redischeckpoint.Options{
			Prefix: prefix, TTL: max(o.Ages.Sessions, 0), Unsettled: age(o.Ages.Unsettled), Said: transcripts.Retire,
		}),
		snapshots: redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}),
		stream: redisstream.New(client, &redisstream.Options{
			Prefix: prefix, Keep: o.StreamKeep, TTL: age(o.Ages.Streams),
		}),
		inbox:       redisinbox.New(client, &redisinbox.Options{Prefix: prefix}),
		transcripts: transcripts,
		locker:      redislocker.New(client, &redislocker.Options{Prefix: prefix + "lock:", Logger: o.Logger}),
	}
}

// Bots returns the names of the bots that have settled a turn here, in byte order. It reads the names of all keys of
// the server, and needs the right to SCAN.
func (db *DB) Bots(ctx context.Context) ([]string, error) { return db.checkpoints.Bots(ctx) }

// Checkpoints keeps the settled turns, and issues the fences.
func (db *DB) Checkpoints() checkpoint.Store { return db.checkpoints }

// Snapshots keeps the runs in flight.
func (db *DB) Snapshots() snapshot.Store { return db.snapshots }

// Stream keeps what readers are shown while a turn runs.
func (db *DB) Stream() stream.Store { return db.stream }

// Inbox keeps the answers of people until they are taken.
func (db *DB) Inbox() inbox.Store { return db.inbox }

// Transcripts keeps what was said in sessions.
func (db *DB) Transcripts() transcript.Store { return db.transcripts }

// Locker queues callers of one session, on github.com/bsm/redislock. A lock ends 30 seconds after its owner has died.
func (db *DB) Locker() lock.Locker { return db.locker }

// Sweep removes what lists sessions that have expired, and what was said in them: at most limit sessions. 0 means no
// limit. Nothing else is left to sweep. An orchestrator on Checkpoints sweeps by itself.
func (db *DB) Sweep(ctx context.Context, limit int) (retired int, err error) {
	return db.checkpoints.Sweep(ctx, limit)
}

// Raise is for after a failover or a restart that may have lost what was written since lost. No owner of before may
// write any more, and no message gets the number of one that is lost. lost and doubt are for the ledgers of other
// databases. They change nothing here.
//
// Call it before traffic is let in. It may be repeated, and must be after an error. docs/operations.md has the runbook.
func (db *DB) Raise(ctx context.Context, lost time.Time, _ time.Duration) error {
	if _, err := db.snapshots.Raise(ctx, lost); err != nil {
		return err
	}
	if _, err := db.checkpoints.Raise(ctx, lost); err != nil {
		return err
	}
	return db.transcripts.Raise(ctx)
}
