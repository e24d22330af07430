// Package stores opens what the bot stores: in an SQLite file, or in PostgreSQL, perhaps with a Redis beside it.
package stores

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/examples/refundbot/setting"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/sqlite"
)

const keep = 30 * 24 * time.Hour // what is only for people who look

// Open opens what c names, and waits for no server. Close it.
func Open(c setting.Config) (s *setting.Stores, err error) {
	s = &setting.Stores{Config: c}
	if c.DatabaseURL == "" {
		if s.SQL, err = sqlite.Open(filepath.Join(c.Dir, "refundbot.db")); err != nil {
			return nil, err
		}
		lite := sqlite.New(s.SQL, &sqlite.Options{Ages: sqlite.Ages{Effects: keep, TurnLogs: keep}})
		s.Database, s.Close = lite, s.SQL.Close
		s.Options = orchestrator.Options{Snapshots: lite.Snapshots(), Stream: lite.Stream()}
	} else {
		pool, err := pgxpool.New(context.Background(), c.DatabaseURL)
		if err != nil {
			return nil, err
		}
		pg := postgres.New(pool, &postgres.Options{Ages: postgres.Ages{Effects: keep, TurnLogs: keep}})
		s.Database, s.SQL = pg, stdlib.OpenDBFromPool(pool)
		s.Close = func() error { defer pool.Close(); return s.SQL.Close() }
		s.Options = orchestrator.Options{Snapshots: pg.Snapshots(), Stream: pg.Stream(), Locker: pg.Locker()}
	}
	s.Options.Ledger, s.Options.TurnLog = s.Ledger(), s.TurnLog()
	if c.RedisURL != "" {
		o, err := goredis.ParseURL(c.RedisURL)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		client, others := goredis.NewClient(o), s.Close
		rd := redis.New(client, &redis.Options{Prefix: c.RedisPrefix})
		s.Options.Snapshots, s.Options.Stream, s.Options.Locker = rd.Snapshots(), rd.Stream(), rd.Locker()
		s.Close = func() error { return errors.Join(client.Close(), others()) }
	}
	return s, nil
}
