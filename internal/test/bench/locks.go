package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// locks measures the cost of a lock that no other caller wants.
func (b *bench) locks(ctx context.Context) error {
	err := b.withRedis(ctx, "everysec", func(client *redis.Client, _ *redischeckpoint.Store) error {
		bare := redislock.New(client)
		contenders := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
		defer contenders.Close()
		if err := b.fairness(ctx, "redislocker", redislocker.New(contenders, nil)); err != nil {
			return err
		}
		return b.compete(ctx, contest{
			what: "Redis", workers: 1,
			reference: subject{name: "bare redislock", op: func(ctx context.Context, worker int) error {
				l, err := bare.Obtain(ctx, fmt.Sprintf("bare:%d", worker), leaseTTL, nil)
				if err != nil {
					return err
				}
				return l.Release(ctx)
			}},
			subjects: []subject{{
				name: "Lock, unlock of redislocker", op: lockUnlock(redislocker.New(client, nil)), goal: atLeast(0.8),
			}},
		})
	})
	if err != nil {
		return err
	}
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		l := pglocker.New(pool, nil)
		if _, err := pool.Exec(ctx, l.Schema()); err != nil {
			return err
		}
		listening := pglocker.New(pool, &pglocker.Options{Listen: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
		}})
		if err := errors.Join(
			b.fairness(ctx, "pglocker, polling", l), b.fairness(ctx, "pglocker, listening", listening),
		); err != nil {
			return err
		}
		for _, workers := range workerCounts {
			err := b.compete(ctx, contest{
				what: "PostgreSQL", workers: workers,
				reference: subject{name: "advisory lock, pinned", op: func(ctx context.Context, worker int) error {
					return advisory(ctx, pool, worker)
				}},
				subjects: []subject{{name: "Lock, unlock of pglocker", op: lockUnlock(l)}},
				between: func(ctx context.Context) error {
					_, err := pool.Exec(ctx, "VACUUM holdfast_locks")
					return err
				},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// contend is how many callers want one key.
const contend = 8

// fairness adds to the report how unequally the contenders for one key get it.
func (b *bench) fairness(ctx context.Context, name string, l lock.Locker) error {
	var got [contend]int
	op := func(ctx context.Context, worker int) error {
		_, unlock, err := l.Lock(ctx, "wanted by all")
		if err != nil {
			return err
		}
		got[worker]++
		unlock()
		return nil
	}
	if _, err := repeat(ctx, contend, time.Duration(b.rounds)*b.round, op, nil); err != nil {
		return err
	}
	b.fact("%s: of %d that contend for one key, the luckiest got it %d times and the unluckiest %d times",
		name, contend, slices.Max(got[:]), slices.Min(got[:]))
	return nil
}

func lockUnlock(l lock.Locker) operation {
	return func(ctx context.Context, worker int) error {
		_, unlock, err := l.Lock(ctx, lock.Key(botName, sessionName(worker)))
		if err != nil {
			return err
		}
		unlock()
		return nil
	}
}

// advisory is the cheapest lock of PostgreSQL. It keeps a connection for as long as it is held.
func advisory(ctx context.Context, pool *pgxpool.Pool, worker int) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", worker); err != nil {
		return err
	}
	_, err = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", worker)
	return err
}
