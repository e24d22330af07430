package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
)

// agentsBranch measures a branch of a long session against one statement that copies the rows of its messages.
func (b *bench) agentsBranch(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		t, err := newTalker(agentStores(pool), b.branched, window, 1, false)
		if err == nil {
			err = t.create(ctx)
		}
		if err := errors.Join(err, b.describe(ctx, pool, "")); err != nil {
			return err
		}
		source := t.session(sessionName(0))
		var made atomic.Int64
		next := func() string { return fmt.Sprint("branch ", made.Add(1)) }
		return b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, agent, %d messages", b.branched), workers: 1,
			reference: subject{name: "INSERT … SELECT", op: func(ctx context.Context, _ int) error {
				_, err := pool.Exec(ctx, `
					INSERT INTO holdfast_messages (orchestrator, session, first, last, at, body)
					SELECT orchestrator, $3, first, last, clock_timestamp(), body FROM holdfast_messages
					WHERE orchestrator = $1 AND session = $2`, t.agent.Name(), source, next())
				return err
			}},
			subjects: []subject{{name: "Branch", goal: atMost(2), op: func(ctx context.Context, _ int) error {
				return t.agent.Branch(ctx, source, 1, next())
			}}},
			between: func(ctx context.Context) error {
				for _, table := range []string{"messages", "transcripts", "turns", "sessions"} {
					_, err := pool.Exec(ctx, "DELETE FROM holdfast_"+table+" WHERE session LIKE 'branch %'")
					if err != nil {
						return err
					}
				}
				_, err := pool.Exec(ctx, "VACUUM (ANALYZE)")
				return err
			},
		})
	})
}

// agentsAnswered measures turns of sessions whose states remember much: who has answered which call, and what was said
// in many spans.
func (b *bench) agentsAnswered(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		const spans, answers = 50, 1000
		st := agentStores(pool)
		fresh, err1 := newTalker(st, 4*spans, window, b.talks, false)
		worn, err2 := newTalker(st, 8*spans, window, b.talks, false)
		if err := errors.Join(err1, err2, b.describe(ctx, pool, "")); err != nil {
			return err
		}
		worn.apart = true
		random := rand.NewChaCha8([32]byte{})
		worn.seeds = func(s *agent.State[struct{}]) {
			calls := binary.AppendUvarint([]byte{0}, answers) // all by the first person
			calls = append(calls, make([]byte, 4*answers)...)
			_, _ = random.Read(calls[len(calls)-4*answers:]) // it has no error
			s.Answered = agent.Answered{By: []string{"ann@example.org"}, Calls: calls, More: true}
		}
		rota := newRota(b.talks, 1)
		return b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, agent, %d messages", 4*spans), workers: 1,
			reference: subject{name: "in one span, none answered", op: rota.on(fresh.play)},
			subjects: []subject{{
				name: fmt.Sprintf("in %d spans, %d answered", spans, answers), op: rota.on(worn.play),
				goal: atMost(1.3),
			}},
			between: renewAll(pool, fresh, worn),
		})
	})
}
