package bootdrain_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A site is the stores that the processes of a test share. With PostgreSQL and Redis, the checkpoints are in
// PostgreSQL.
type site struct {
	Postgres, Redis, Prefix, SQLite string
	// Effects is the file in which every intent notes its start.
	Effects string
	// Defaults says that bots have the limits that they have by default.
	Defaults bool
	// TTL is Limits.LeaseTTL. 0 means that of limits.
	TTL time.Duration
	// DeadAfter is Limits.DeadAfter.
	DeadAfter time.Duration
	// Conns is how many connections to PostgreSQL a process has. 0 means 2, because many processes share the server.
	Conns int32
	// Locker is "redis" or "postgres"; "" means none.
	Locker string
}

// An opened site is a site as a process sees it.
type opened struct {
	checkpoints checkpoint.Store
	snapshots   snapshot.Store
	ledger      ledger.Ledger  // nil: the site has none
	log         turnlog.Lister // nil: the site has none
	locker      lock.Locker    // nil: the site has none
	effects     string
	name        string // of the bots; "" means support
	limits      orchestrator.Limits
	close       func()
}

func (s site) open(ctx context.Context) (w opened, err error) {
	w.effects, w.limits = s.Effects, limits
	if s.Defaults {
		w.limits = orchestrator.Limits{}
	}
	w.limits.DeadAfter = s.DeadAfter
	if s.TTL > 0 {
		w.limits.LeaseTTL, w.limits.SettleTimeout = s.TTL, s.TTL
	}
	var closers []func() error
	w.close = func() {
		for _, c := range closers {
			_ = c()
		}
	}
	if s.SQLite != "" {
		db, err := sql.Open("sqlite", s.SQLite)
		if err != nil {
			return w, err
		}
		closers = append(closers, db.Close)
		w.checkpoints, w.snapshots = sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)
		w.ledger, w.log = sqliteledger.New(db, nil), sqliteturnlog.New(db, nil)
	}
	if s.Redis != "" {
		client := redis.NewClient(&redis.Options{Addr: s.Redis})
		closers = append(closers, client.Close)
		w.checkpoints = redischeckpoint.New(client, &redischeckpoint.Options{Prefix: s.Prefix})
		w.snapshots = redissnapshot.New(client, &redissnapshot.Options{Prefix: s.Prefix})
		if s.Locker == "redis" {
			w.locker = redislocker.New(client, &redislocker.Options{Prefix: s.Prefix + "lock:", Logger: quiet})
		}
	}
	if s.Postgres != "" {
		config, err := pgxpool.ParseConfig(s.Postgres)
		if err != nil {
			return w, err
		}
		config.MaxConns = cmp.Or(s.Conns, 2)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return w, err
		}
		closers = append(closers, func() error { pool.Close(); return nil })
		w.checkpoints, w.ledger = pgcheckpoint.New(pool, nil), pgledger.New(pool, nil)
		w.log = pgturnlog.New(pool, nil)
		if s.Locker == "postgres" {
			w.locker = pglocker.New(pool, &pglocker.Options{Logger: quiet})
		}
		if s.Redis == "" {
			w.snapshots = pgsnapshot.New(pool, nil)
		}
	}
	return w, nil
}

// sites runs test on each pair of stores.
func sites(t *testing.T, test func(*testing.T, site, opened)) {
	t.Helper()
	tests := make(map[string]func(*testing.T))
	for name, build := range map[string]func(*testing.T) site{
		"postgres": onPostgres, "postgres and redis": onBoth, "redis": onRedis, "sqlite": onSQLite,
	} {
		tests[name] = func(t *testing.T) {
			s := build(t)
			s.Effects = filepath.Join(t.TempDir(), "effects")
			test(t, s, openSite(t, s))
		}
	}
	together(t, tests)
}

// soak reports whether the tests do all that they can. Otherwise they do what a change of one line can wait for.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// takes reports whether a site plays a case out of many, by its number. Together the three sites that have a ledger
// play all cases. With HOLDFAST_SOAK=1 each of them does.
func (s site) takes(number int) bool {
	mine := 0
	switch {
	case s.SQLite != "":
		mine = 1
	case s.Redis != "":
		mine = 2
	}
	return soak() || number%3 == mine
}

// together runs tests at once, more of them than there are processors: most of the time they wait for other processes
// and for the end of leases. With HOLDFAST_SOAK=1, which has more to do and judges times, they run one after the other.
func together(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		if soak() {
			t.Run(name, test)
			continue
		}
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

func openSite(t *testing.T, s site) opened {
	t.Helper()
	w, err := s.open(t.Context())
	t.Cleanup(w.close)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func onPostgres(t *testing.T) site { return site{Postgres: testenv.PostgresURL(t)} }

func onRedis(t *testing.T) site {
	client, prefix := testenv.Redis(t)
	return site{Redis: client.Options().Addr, Prefix: prefix}
}

func onBoth(t *testing.T) site {
	s := onRedis(t)
	s.Postgres = testenv.PostgresURL(t)
	return s
}

func onSQLite(t *testing.T) site {
	s := site{SQLite: testenv.SQLite(t)}
	migrated(t, "sqlite", s.SQLite, migrations.SQLite)
	return s
}

// migrated opens an empty database and makes the tables.
func migrated(t *testing.T, driver, dsn string, d migrations.Dialect) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := migrations.Up(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	return db
}

// Short names, for the tests of this package.
type (
	bot  = orchestrator.Orchestrator[talk]
	turn = orchestrator.Turn[talk]
)

// A talk is the state of a session.
type talk struct{ Said []string }

// start returns the bot of one process. Its turns note their start, and then run body.
func (w opened) start(t *testing.T, body func(context.Context, *turn) error) *bot {
	t.Helper()
	b, err := w.bot(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// With these limits, no lease ends too soon on a busy machine, and none is renewed.
var limits = orchestrator.Limits{LeaseTTL: time.Hour, SettleTimeout: time.Minute, Attempts: attempts}

func (w opened) bot(body func(context.Context, *turn) error) (*bot, error) {
	return orchestrator.New(orchestrator.Definition[talk]{
		Name: cmp.Or(w.name, "support"), First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, t *turn) error {
			if err := w.note(t); err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, t.Input.Text)
			if body == nil {
				return nil
			}
			return body(ctx, t)
		}}},
	}, w.checkpoints, &orchestrator.Options{
		Snapshots: w.snapshots, Locker: w.locker, Limits: w.limits, Logger: quiet,
	})
}

var quiet = slog.New(slog.DiscardHandler)

// note notes for all processes that an intent has started.
func (w opened) note(t *turn) error {
	f, err := os.OpenFile(w.effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s: %s\n", t.Session, t.Input.Text)
	return errors.Join(err, f.Close())
}

// wantStarts checks how often the intent of an input has started, in all processes together.
func (w opened) wantStarts(t *testing.T, session, text string, want int) {
	t.Helper()
	notes, err := os.ReadFile(w.effects)
	if err != nil {
		t.Fatal(err)
	}
	got, start := 0, fmt.Sprintf("%s: %s\n", session, text)
	for note := range strings.Lines(string(notes)) {
		if note == start {
			got++
		}
	}
	if got != want {
		t.Errorf("%s: %q has started %d times, want %d", session, text, got, want)
	}
}

// wantTurns checks which turns have settled, in which order, and that each turn began on the one before.
func wantTurns(t *testing.T, b *bot, session string, texts ...string) {
	t.Helper()
	var said []string
	var last talk
	for res, err := range b.Turns(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		if said == nil {
			last = res.State
		}
		said = append(said, res.Input.Text)
	}
	slices.Reverse(said)
	if !slices.Equal(said, texts) || !slices.Equal(last.Said, texts) {
		t.Errorf("%s: turns %q, which say %q, want %q", session, said, last.Said, texts)
	}
}

// wantRuns checks how many runs are in flight.
func wantRuns(t *testing.T, b *bot, want int) []snapshot.Run {
	t.Helper()
	var runs []snapshot.Run
	for r, err := range b.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if len(runs) != want {
		t.Fatalf("%d runs in flight, want %d: %s", len(runs), want, told(runs))
	}
	return runs
}

// told describes runs for people.
func told(runs []snapshot.Run) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "%s: %s in attempt %d %s; ", r.Session, r.Status, r.Attempt, r.Error)
	}
	return b.String()
}

// patience bounds how long a test waits for an event that must come.
func patience(t *testing.T) context.Context {
	bound := 2 * time.Minute
	if soak() {
		bound *= 5
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}
