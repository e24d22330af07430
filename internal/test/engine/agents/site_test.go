package agents_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A site says where sessions are kept.
type site struct {
	Postgres, SQLite string // the URL, or the file
	Redis, Prefix    string // of the runs, the streams and the inbox, beside PostgreSQL
	Log              bool   // the site has a turn log

	book *ledger.Memory // beside Redis alone, which has none: its processes are one
}

// sites are where the tests play. Each returns an empty one.
var sites = map[string]func(t *testing.T) site{
	"postgres": onPostgres, "sqlite": onSQLite, "postgres and redis": onBoth, "redis": onRedis,
}

func onPostgres(t *testing.T) site {
	t.Helper()
	s := site{Postgres: testenv.PostgresURL(t) + "&pool_max_conns=4"}
	pool, err := pgxpool.New(t.Context(), s.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.New(pool, nil).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func onBoth(t *testing.T) site {
	t.Helper()
	s := onPostgres(t)
	client, prefix := testenv.Redis(t)
	s.Redis, s.Prefix = client.Options().Addr, prefix
	return s
}

func onRedis(t *testing.T) site {
	t.Helper()
	client, prefix := testenv.Redis(t)
	return site{Redis: client.Options().Addr, Prefix: prefix, book: new(ledger.Memory)}
}

func onSQLite(t *testing.T) site {
	t.Helper()
	s := site{SQLite: filepath.Join(t.TempDir(), "test.db")}
	db, err := sqlite.Open(s.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := sqlite.New(db, nil).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// copied returns a site of its own that is as s. A file has one writer, for whom others would wait.
func (s site) copied(t *testing.T) site {
	t.Helper()
	if s.SQLite == "" {
		return s
	}
	data, err := os.ReadFile(s.SQLite)
	if err == nil {
		s.SQLite = filepath.Join(t.TempDir(), "test.db")
		err = os.WriteFile(s.SQLite, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open returns the stores of a site.
func (s site) open(ctx context.Context) (st agent.Stores, shut func(), err error) {
	if s.SQLite != "" {
		pool, err := sqlite.Open(s.SQLite)
		if err != nil {
			return st, nil, err
		}
		db := sqlite.New(pool, nil)
		st = agent.Stores{
			Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: db.Ledger(),
			Inbox: db.Inbox(), Stream: db.Stream(), TurnLog: db.TurnLog(),
		}
		return st, func() { _ = pool.Close() }, nil
	}
	if s.Postgres == "" {
		client := goredis.NewClient(&goredis.Options{Addr: s.Redis})
		db := redis.New(client, &redis.Options{Prefix: s.Prefix, Logger: quiet})
		st = agent.Stores{
			Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: s.book,
			Inbox: db.Inbox(), Stream: db.Stream(),
		}
		return st, func() { _ = client.Close() }, nil
	}
	pool, err := pgxpool.New(ctx, s.Postgres)
	if err != nil {
		return st, nil, err
	}
	shut = pool.Close
	db := postgres.New(pool, &postgres.Options{Logger: quiet})
	st = agent.Stores{
		Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: db.Ledger(),
		Inbox: db.Inbox(), Stream: db.Stream(), TurnLog: db.TurnLog(),
	}
	if s.Redis != "" {
		client := goredis.NewClient(&goredis.Options{Addr: s.Redis})
		db := redis.New(client, &redis.Options{Prefix: s.Prefix, Logger: quiet})
		st.Snapshots, st.Inbox, st.Stream = db.Snapshots(), db.Inbox(), db.Stream()
		shut = func() { pool.Close(); _ = client.Close() }
	}
	return st, shut, nil
}

// phases are those that a turn log takes.
func phases() *turnlog.Registry {
	r := turnlog.NewRegistry()
	if err := r.Register(looked, "a tool has looked something up"); err != nil {
		panic(err)
	}
	return r
}

// looked is a phase of the program.
const looked = "looked-up"
