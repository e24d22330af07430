package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// flat bounds the cost of a long history.
var flat = atMost(1.2)

// postgresHistory turns autovacuum off, so that the dead rows of every pruned turn are still there.
func (b *bench) postgresHistory(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"autovacuum": "off"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := b.describe(ctx, pool, " (long session)"); err != nil {
			return err
		}
		return b.history(ctx, "PostgreSQL, autovacuum off", store)
	})
}

// history compares turns of sessions with many turns behind them with turns of sessions with few.
func (b *bench) history(ctx context.Context, where string, store checkpoint.Store) error {
	states := prose(64)
	young, old := player{store, states, b.keep, "young/"}, player{store, states, b.keep, "old/"}
	if err := young.fillAll(ctx, b.rounds, b.young); err != nil {
		return err
	}
	if err := old.fillAll(ctx, b.rounds, b.old); err != nil {
		return err
	}
	samples := make([]sample, b.rounds)
	for round := range samples {
		var err error
		if samples[round], err = b.alternate(ctx, young, old, round); err != nil {
			return err
		}
	}
	b.add(result{where + ": Claim, Append at turn 5,000", "at turn 200", 1, flat, samples})
	return nil
}

// alternate plays a turn of one session and a turn of the other, again and again.
func (b *bench) alternate(ctx context.Context, reference, subject player, session int) (sample, error) {
	var took [2]time.Duration
	for range b.span {
		for i, p := range []player{reference, subject} {
			start := time.Now()
			if err := p.play(ctx, sessionName(session)); err != nil {
				return sample{}, err
			}
			took[i] += time.Since(start)
		}
	}
	n := float64(b.span)
	return sample{reference: n / took[0].Seconds(), rate: n / took[1].Seconds()}, nil
}
