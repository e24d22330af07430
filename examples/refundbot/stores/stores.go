// Package stores opens what the bot stores, in one of three settings: an SQLite file, PostgreSQL, or PostgreSQL with
// the runs and streams in Redis.
package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver of the file

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Config says where the stores are.
type Config struct {
	// Dir is the folder of the SQLite file. It is used if DatabaseURL is "".
	Dir string

	// DatabaseURL is of a PostgreSQL. RedisURL, which may be "", is of a Redis beside it.
	DatabaseURL, RedisURL string

	// RedisPrefix begins the keys in Redis. "" means "holdfast:".
	RedisPrefix string

	// Own puts the tables of the stores into the application's own set of migrations, in place of migrations.Up.
	Own bool

	// Newer lets Prepare accept a schema that a later version of the program has changed, as after a rollback.
	Newer bool
}

// Setting names the setting: "sqlite", "postgres" or "postgres+redis".
func (c Config) Setting() string {
	switch {
	case c.DatabaseURL == "":
		return "sqlite"
	case c.RedisURL == "":
		return "postgres"
	}
	return "postgres+redis"
}

// ErrConfig says that an address is no address: trying again does not help.
var ErrConfig = errors.New("bad configuration")

// Stores are the stores of one setting. They share a database.
type Stores struct {
	// Setting is Config.Setting.
	Setting string

	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	Ledger      ledger.Ledger
	TurnLog     turnlog.Lister
	Stream      stream.Store
	Inbox       inbox.Store
	Locker      lock.Locker // nil on SQLite
	Messages    *bot.Messages

	db      *sql.DB
	dialect migrations.Dialect
	// file is the SQLite file.
	file string
	// own and newer are Config.Own and Config.Newer.
	own, newer bool
	// shut closes the clients, the last opened first.
	shut []func() error
}

// Open opens the clients. It does not wait for a server: see [Stores.Prepare]. Close closes them.
func Open(c Config) (*Stores, error) {
	switch {
	case c.DatabaseURL == "" && c.RedisURL != "":
		return nil, fmt.Errorf("%w: REDIS_URL needs DATABASE_URL", ErrConfig)
	case c.DatabaseURL == "":
		return openSQLite(c)
	}
	s, err := openPostgres(c)
	if err != nil || c.RedisURL == "" {
		return s, err
	}
	if err := s.addRedis(c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openSQLite(c Config) (*Stores, error) {
	const settings = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	file := filepath.Join(c.Dir, "refundbot.db")
	if err := writable(file); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+file+settings)
	if err != nil {
		return nil, err
	}
	return &Stores{
		Setting:     c.Setting(),
		Checkpoints: sqlitecheckpoint.New(db, nil),
		Snapshots:   sqlitesnapshot.New(db, nil),
		Ledger:      sqliteledger.New(db, nil),
		TurnLog:     sqliteturnlog.New(db, nil),
		Stream:      sqlitestream.New(db, nil),
		Inbox:       sqliteinbox.New(db, nil),
		Messages:    bot.NewMessages(db, false),
		db:          db, dialect: migrations.SQLite, file: file, own: c.Own, newer: c.Newer,
		shut: []func() error{db.Close},
	}, nil
}

// writable reports why a file cannot be written or made, before a driver says it in its own words.
func writable(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func openPostgres(c Config) (*Stores, error) {
	config, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: DATABASE_URL: %w", ErrConfig, err)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config) // it connects when it is used
	if err != nil {
		return nil, fmt.Errorf("%w: DATABASE_URL: %w", ErrConfig, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	return &Stores{
		Setting:     c.Setting(),
		Checkpoints: pgcheckpoint.New(pool, nil),
		Snapshots:   pgsnapshot.New(pool, nil),
		Ledger:      pgledger.New(pool, nil),
		TurnLog:     pgturnlog.New(pool, nil),
		Stream:      pgstream.New(pool, nil),
		Inbox:       pginbox.New(pool, nil),
		Locker:      pglocker.New(pool, nil),
		Messages:    bot.NewMessages(db, true),
		db:          db, dialect: migrations.Postgres, own: c.Own, newer: c.Newer,
		shut: []func() error{func() error { pool.Close(); return nil }, db.Close},
	}, nil
}

// addRedis puts the runs, the streams and the locks into Redis.
func (s *Stores) addRedis(c Config) error {
	options, err := redis.ParseURL(c.RedisURL)
	if err != nil {
		return fmt.Errorf("%w: REDIS_URL: %w", ErrConfig, err)
	}
	client := redis.NewClient(options)
	s.shut = append(s.shut, client.Close)
	s.Snapshots = redissnapshot.New(client, &redissnapshot.Options{Prefix: c.RedisPrefix})
	s.Stream = redisstream.New(client, &redisstream.Options{Prefix: c.RedisPrefix})
	lockPrefix := ""
	if c.RedisPrefix != "" {
		lockPrefix = c.RedisPrefix + "lock:"
	}
	s.Locker = redislocker.New(client, &redislocker.Options{Prefix: lockPrefix})
	return nil
}

// Options returns the options of an orchestrator on the stores.
func (s *Stores) Options() *orchestrator.Options {
	return &orchestrator.Options{
		Snapshots: s.Snapshots, Ledger: s.Ledger, TurnLog: s.TurnLog, Stream: s.Stream, Locker: s.Locker,
	}
}

// Close closes the clients.
func (s *Stores) Close() error {
	var errs []error
	for i := len(s.shut) - 1; i >= 0; i-- {
		errs = append(errs, s.shut[i]())
	}
	return errors.Join(errs...)
}
