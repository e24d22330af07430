// Package stores opens what the bot stores: in an SQLite file, or in PostgreSQL, perhaps with a Redis beside it.
package stores

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A Config says where the stores are: in an SQLite file, in PostgreSQL, or in PostgreSQL with the runs, the streams and
// the locks in Redis.
type Config struct {
	// Dir is the folder of the SQLite file. It is used if DatabaseURL is "".
	Dir string

	// DatabaseURL is of a PostgreSQL. RedisURL, which may be "", is of a Redis beside it.
	DatabaseURL, RedisURL string

	// RedisPrefix begins the keys in Redis. "" means "holdfast:".
	RedisPrefix string

	// Own puts the tables of the stores into the application's own set of migrations.
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

// A Database is a *sqlite.DB or a *postgres.DB.
type Database interface {
	agent.Database
	TurnLog() turnlog.Lister
	Up(ctx context.Context) error
	Check(ctx context.Context) error
	Schemas() []migrations.Schemer
	Sweep(ctx context.Context, limit int) (retired int, err error)
}

// Stores are the stores of one setting.
type Stores struct {
	Config
	agent.Stores
	Options orchestrator.Options // with the Locker, if there is one
	Close   func() error

	db  Database
	sql *sql.DB
}

const keep = 30 * 24 * time.Hour // what is only for people who look

// Open opens what c names, and waits for no server. Close it.
func Open(c Config) (s *Stores, err error) {
	s = &Stores{Config: c}
	if c.DatabaseURL == "" {
		if s.sql, err = sqlite.Open(filepath.Join(c.Dir, "refundbot.db")); err != nil {
			return nil, err
		}
		s.db = sqlite.New(s.sql, &sqlite.Options{Ages: sqlite.Ages{Effects: keep, TurnLogs: keep}})
		s.Close = s.sql.Close
	} else {
		pool, err := pgxpool.New(context.Background(), c.DatabaseURL)
		if err != nil {
			return nil, err
		}
		pg := postgres.New(pool, &postgres.Options{Ages: postgres.Ages{Effects: keep, TurnLogs: keep}})
		s.db, s.sql, s.Options.Locker = pg, stdlib.OpenDBFromPool(pool), pg.Locker()
		s.Close = func() error { defer pool.Close(); return s.sql.Close() }
	}
	s.Stores = agent.On(s.db)
	s.TurnLog = s.db.TurnLog()
	if c.RedisURL != "" {
		o, err := goredis.ParseURL(c.RedisURL)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		client, others := goredis.NewClient(o), s.Close
		rd := redis.New(client, &redis.Options{Prefix: c.RedisPrefix})
		s.Snapshots, s.Stream, s.Options.Locker = rd.Snapshots(), rd.Stream(), rd.Locker()
		s.Close = func() error { return errors.Join(client.Close(), others()) }
	}
	return s, nil
}

// Idle reports whether no process is in the middle of a write to the SQLite file. One that is keeps all others
// waiting. A server notices by itself.
func (c Config) Idle(ctx context.Context) bool {
	if c.DatabaseURL != "" {
		return true
	}
	db, err := sql.Open("sqlite", filepath.Join(c.Dir, "refundbot.db"))
	if err != nil {
		return false
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err = db.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	_, err = db.ExecContext(ctx, "ROLLBACK")
	return err == nil
}

// Sweep retires what nobody needs any more.
func (s *Stores) Sweep(ctx context.Context, limit int) (retired int, err error) {
	return s.db.Sweep(ctx, limit)
}
