package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// postgresLeases measures how long one Renew of all sessions of a process takes, and how much room sessions and turns
// take. A process renews once in each third of LeaseTTL.
func (b *bench) postgresLeases(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		err := b.describe(ctx, pool, "")
		leases, failed := claimed(ctx, store, b.listed)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		renew := func(n int) operation { return renewing(store, leases[:n]) }
		c := contest{
			what: "PostgreSQL, Renew", workers: 1, reference: subject{name: "of 1 lease", op: renew(1)},
			between: func(ctx context.Context) error {
				_, err := pool.Exec(ctx, "VACUUM (ANALYZE) holdfast_sessions")
				return err
			},
		}
		for _, n := range []int{b.listed / 100, b.listed / 10, b.listed} {
			c.subjects = append(c.subjects, subject{
				name: fmt.Sprintf("of %d leases", n), op: renew(n), goal: goal{kind: latency},
			})
		}
		if err := b.compete(ctx, c); err != nil {
			return err
		}
		if err := b.weighRenewal(ctx, pool, renew(len(leases)), len(leases)); err != nil {
			return err
		}
		return b.room(ctx, pool, store)
	})
}

// room adds to the report how large tables and indexes are before rows have been pruned.
func (b *bench) room(ctx context.Context, pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
	p := player{store, prose(64), b.keep, "kept-"}
	if err := p.fillAll(ctx, b.sessions, b.keep); err != nil {
		return err
	}
	for _, what := range []string{"sessions", "turns"} {
		var bytes int64
		err := pool.QueryRow(ctx, fmt.Sprintf(
			`SELECT pg_total_relation_size('holdfast_%[1]s') / (SELECT count(*) FROM holdfast_%[1]s)`, what)).Scan(&bytes)
		if err != nil {
			return err
		}
		b.fact("holdfast_%s: %d bytes a row, with its indexes", what, bytes)
	}
	return nil
}

// claimed returns the leases of so many new sessions.
func claimed(ctx context.Context, store checkpoint.Store, sessions int) ([]checkpoint.Lease, error) {
	leases := make([]checkpoint.Lease, sessions)
	p := player{store: store}
	err := inParallel(sessions, func(i int) error {
		c, err := p.claim(ctx, sessionName(i))
		leases[i] = c.Lease
		return err
	})
	return leases, err
}

func renewing(store checkpoint.Store, leases []checkpoint.Lease) operation {
	return func(ctx context.Context, _ int) error {
		lost, err := store.Renew(ctx, leaseTTL, leases)
		if err == nil && len(lost) > 0 {
			err = fmt.Errorf("%d leases are lost", len(lost))
		}
		return err
	}
}

// weighRenewal adds to the report how much the renewal of one lease costs the server, if many are renewed at once.
func (b *bench) weighRenewal(ctx context.Context, pool *pgxpool.Pool, renew operation, leases int) error {
	l := load{play: func(ctx context.Context, _ string) error { return renew(ctx, 0) }}
	for lap := range 1 + 3*b.rounds {
		if _, err := pool.Exec(ctx, "VACUUM holdfast_sessions"); err != nil {
			return err
		}
		if err := l.weigh(ctx, pool, 1, lap > 0); err != nil {
			return err
		}
	}
	b.fact("Renew of %d leases: %.1f µs of the server's processor and %d bytes of its log a lease", leases,
		float64(cheap(l.took))/1000/float64(leases), cheap(l.wrote)/int64(leases))
	return nil
}
