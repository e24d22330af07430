package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// A shown has the stores of a bot, and what it shows its events in: two stores on one server, as of two processes.
type shown struct {
	where          string
	turns          checkpoint.Store
	runs           snapshot.Store
	stream, reader stream.Store

	// first is how long the first token may take to a reader in another process.
	first time.Duration
}

// streamsPostgres measures what pgstream costs a turn, and how soon a reader has the first token.
func (b *bench) streamsPostgres(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, turns *pgcheckpoint.Store) error {
		runs, shows := pgsnapshot.New(pool, nil), pgstream.New(pool, nil)
		other, err := pgxpool.NewWithConfig(ctx, pool.Config())
		if err != nil {
			return err
		}
		defer other.Close()
		if _, err := pool.Exec(ctx, runs.Schema()+shows.Schema()); err != nil {
			return err
		}
		return b.compareShown(ctx, shown{
			"PostgreSQL", turns, runs, shows, pgstream.New(other, nil), 250 * time.Millisecond,
		})
	})
}

// streamsRedis measures the same of redisstream beside PostgreSQL, as docs/scaling.md advises.
func (b *bench) streamsRedis(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, turns *pgcheckpoint.Store) error {
		runs := pgsnapshot.New(pool, nil)
		if _, err := pool.Exec(ctx, runs.Schema()); err != nil {
			return err
		}
		return b.withRedis(ctx, "everysec", func(client *redis.Client, _ *redischeckpoint.Store) error {
			o := *client.Options()
			o.PoolSize = 10
			one, two := redis.NewClient(&o), redis.NewClient(&o)
			defer one.Close()
			defer two.Close()
			return b.compareShown(ctx, shown{
				"PostgreSQL, stream in Redis", turns, runs, redisstream.New(one, nil), redisstream.New(two, nil),
				100 * time.Millisecond,
			})
		})
	})
}

// streamsSQLite measures the same of sqlitestream.
func (b *bench) streamsSQLite(ctx context.Context) error {
	return b.withSQLite(ctx, "streams.db", func(db *sql.DB) error {
		return b.withSQLite(ctx, "streams.db", func(other *sql.DB) error {
			turns, runs, shows := sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil), sqlitestream.New(db, nil)
			if _, err := db.ExecContext(ctx, turns.Schema()+runs.Schema()+shows.Schema()); err != nil {
				return err
			}
			return b.compareShown(ctx, shown{
				"SQLite", turns, runs, shows, sqlitestream.New(other, nil), 250 * time.Millisecond,
			})
		})
	})
}

const (
	// replyWords is how many tokens a reply has, and wordTime how long the model needs for each.
	replyWords = 50
	wordTime   = 5 * time.Millisecond
)

// replies returns a bot that answers with tokens, each after a time.
func replies(name string, each time.Duration) orchestrator.Definition[conversation] {
	answer := answering()
	return orchestrator.Definition[conversation]{
		Name: name, Intents: orchestrator.Intents[conversation]{"answer": {
			Run: func(ctx context.Context, t *orchestrator.Turn[conversation]) error {
				for range replyWords {
					time.Sleep(each)
					t.Emit("word ")
				}
				return answer(ctx, t)
			},
		}},
	}
}

// compareShown measures turns with a stream store against turns without: those of a model that takes a quarter of a
// second, and those of one that takes no time, whose only cost is what the stores do.
func (b *bench) compareShown(ctx context.Context, s shown) error {
	for _, model := range []struct {
		what string
		each time.Duration
		goal goal
	}{
		{fmt.Sprintf("%d tokens in %v", replyWords, replyWords*wordTime), wordTime, atLeast(0.95)},
		{fmt.Sprintf("%d tokens in no time", replyWords), 0, goal{}},
	} {
		plain, err1 := s.actor(replies("plain", model.each), nil, b.keep)
		streamed, err2 := s.actor(replies("streamed", model.each), s.stream, b.keep)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for _, workers := range []int{1, 8} {
			rota := newRota(b.sessions, workers)
			if err := b.compete(ctx, contest{
				what: s.where + ", " + model.what, workers: workers,
				reference: subject{name: "Execute", op: rota.on(plain.play)},
				subjects: []subject{
					{name: "Execute with a stream store", op: rota.on(streamed.play), goal: model.goal},
				},
			}); err != nil {
				return err
			}
		}
		if err := errors.Join(plain.Shutdown(ctx), streamed.Shutdown(ctx)); err != nil {
			return err
		}
	}
	return b.firstToken(ctx, s)
}

func (s shown) actor(
	d orchestrator.Definition[conversation], to stream.Store, keep int,
) (actor[conversation], error) {
	bot, err := orchestrator.New(d, s.turns, &orchestrator.Options{Snapshots: s.runs, KeepSnapshots: keep, Stream: to})
	return actor[conversation]{bot}, err
}

// firstToken measures turns that end when a reader in another process has their one token.
func (b *bench) firstToken(ctx context.Context, s shown) error {
	seen := make(chan struct{}, 1)
	def := orchestrator.Definition[conversation]{
		Name: "first", Intents: orchestrator.Intents[conversation]{"answer": {
			Run: func(ctx context.Context, t *orchestrator.Turn[conversation]) error {
				t.Emit("word ")
				select {
				case <-seen:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			},
		}},
	}
	writer, err1 := s.actor(def, s.stream, b.keep)
	reader, err2 := s.actor(def, s.reader, b.keep)
	plain, err3 := s.actor(replies("alone", 0), nil, b.keep)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- follow(reading, reader, seen) }()
	err := b.compete(ctx, contest{
		what: s.where + ", first token in another process", workers: 1,
		reference: subject{name: "Execute", op: func(ctx context.Context, _ int) error {
			return plain.play(ctx, sessionName(0))
		}},
		subjects: []subject{{name: "a turn until a reader has its token", op: func(ctx context.Context, _ int) error {
			return writer.play(ctx, sessionName(0))
		}, goal: below(s.first)}},
	})
	stop()
	return errors.Join(err, <-done, writer.Shutdown(ctx), reader.Shutdown(ctx))
}

// follow reads the events of the first session until ctx ends, and says when it has a token.
func follow(ctx context.Context, bot actor[conversation], seen chan<- struct{}) error {
	var last int64
	for ctx.Err() == nil {
		for ev, err := range bot.Follow(ctx, sessionName(0), last) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			last = ev.Number
			if ev.Event.Kind == orchestrator.Token {
				seen <- struct{}{}
			}
		}
	}
	return nil
}
