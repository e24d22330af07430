package pgcheckpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// Statements that look right, and that PostgreSQL lets through although they break the contract.
const (
	appendExists = `
		WITH i AS (
			INSERT INTO {turns} (orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id)
			SELECT $1, $2, $5::integer, $6::jsonb, $7::jsonb, $8::text[], $9, $10, $11, nullif($12, '')
			WHERE EXISTS (SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4 AND turn = $5::integer - 1)
			ON CONFLICT DO NOTHING
			RETURNING turn
		), h AS (
			UPDATE {sessions} SET turn = i.turn FROM i WHERE orchestrator = $1 AND session = $2
		)
		SELECT $13::integer, $14::boolean, $15::boolean, pg_sleep(0.002) FROM i`

	appendAtLeast = `
		WITH h AS (
			UPDATE {sessions} SET turn = $5::integer
			WHERE orchestrator = $1 AND session = $2 AND epoch <= $3 AND nonce = $4 AND turn = $5::integer - 1
			RETURNING turn
		), i AS (
			INSERT INTO {turns} (orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id)
			SELECT $1, $2, $5::integer, $6::jsonb, $7::jsonb, $8::text[], $9, $10, $11, nullif($12, '') FROM h
		)
		SELECT $13::integer, $14::boolean, $15::boolean FROM h`

	deleteAtOnce = `
		WITH h AS (DELETE FROM {sessions} WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4 RETURNING 1)
		DELETE FROM {turns} WHERE orchestrator = $1 AND session = $2 AND EXISTS (SELECT FROM h)`

	deleteAnyHead = `DELETE FROM {sessions} WHERE orchestrator = $1 AND session = $2 AND $3::bigint > 0 AND $4 <> ''`

	deleteTurns = `
		WITH d AS (DELETE FROM {turns} WHERE orchestrator = $1 AND session = $2)
		SELECT EXISTS (SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2)`

	// If this claim is refused, it describes the head as it was before the claim waited.
	claimAsSeen = `
		WITH c AS (
			UPDATE {sessions} SET epoch = greatest(epoch + 1, {clock}), nonce = $3, owner = $4,
				lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond'
			WHERE orchestrator = $1 AND session = $2 AND %s
			RETURNING {granted}
		)
		SELECT * FROM c
		UNION ALL
		SELECT CASE WHEN lease_until > clock_timestamp() THEN 'held' ELSE 'free' END, epoch, nonce, owner, 0, 0, 0, 0, 0
		FROM {sessions}
		WHERE orchestrator = $1 AND session = $2 AND NOT EXISTS (SELECT FROM c)`

	claimAndLoad = `
		WITH c AS (
			INSERT INTO {sessions} AS h (orchestrator, session, epoch, nonce, owner, lease_until, born)
			VALUES ($1, $2, $4, $3, 'x', clock_timestamp() + interval '1 hour', $4)
			ON CONFLICT (orchestrator, session) DO UPDATE SET epoch = h.epoch + 1, nonce = excluded.nonce, lease_until = excluded.lease_until
			RETURNING h.epoch, h.born
		)
		SELECT c.epoch, c.born, coalesce(t.turn, -1), coalesce(t.run_id, '')
		FROM c LEFT JOIN LATERAL (
			SELECT turn, run_id FROM {turns} WHERE orchestrator = $1 AND session = $2 ORDER BY turn DESC LIMIT 1
		) t ON true`
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestSuiteConvicts(t *testing.T) {
	// sends returns a store that sends another statement.
	sends := func(statement func(*queries) *string, sql string) func(*Store, *pgxpool.Pool) checkpoint.Store {
		return func(s *Store, _ *pgxpool.Pool) checkpoint.Store {
			*statement(&s.sql) = s.Fill(sql)
			return s
		}
	}
	appends, claims := func(q *queries) *string { return &q.append }, func(q *queries) *string { return &q.claim }
	const anyOwner = "(nonce = $3 OR lease_until <= clock_timestamp() OR $6::bigint > 0 AND $7 <> '')"
	for name, c := range map[string]struct {
		clauses []string
		broken  func(*Store, *pgxpool.Pool) checkpoint.Store
	}{
		"WHERE EXISTS":           {[]string{"takeover", "zombies"}, sends(appends, appendExists)},
		"epoch at least as high": {[]string{"fence-epoch"}, sends(appends, appendAtLeast)},
		"Delete in one statement": {
			[]string{"delete-append"},
			func(s *Store, _ *pgxpool.Pool) checkpoint.Store {
				s.sql.deleteHead = s.Fill(deleteAtOnce)
				s.sql.deleteTurns = `SELECT $1::text IS NULL OR $2::text IS NULL`
				return s
			},
		},
		"Delete without the fence": {
			[]string{"delete-fenced", "delete-late"},
			sends(func(q *queries) *string { return &q.deleteHead }, deleteAnyHead),
		},
		"Delete of the turns of another life": {
			[]string{"delete-fenced", "delete-late"},
			sends(func(q *queries) *string { return &q.deleteTurns }, deleteTurns),
		},
		"a refusal that names the owner as of before the claim waited": {
			[]string{"steal-race"}, sends(claims, fmt.Sprintf(claimAsSeen, "{admits}")),
		},
		"a claim that takes a session from whoever has it": {
			[]string{"steal-other", "steal-free", "steal-late"}, sends(claims, fmt.Sprintf(claimAsSeen, anyOwner)),
		},
		"claim and load in one statement": {
			[]string{"takeover"},
			func(s *Store, pool *pgxpool.Pool) checkpoint.Store { return oneStatement{s, pool} },
		},
		"prefix with LIKE": {
			[]string{"sessions-prefix"},
			func(s *Store, pool *pgxpool.Pool) checkpoint.Store { return likes{s, pool} },
		},
		"rows open while it yields": {
			[]string{"sequences-reentrant"},
			func(s *Store, pool *pgxpool.Pool) checkpoint.Store { return cursor{s, pool} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, clause := range c.clauses {
				suite.Trial[checkpoint.Store]{
					Violations: checkpointtest.Violations,
					Blocking:   []string{"sequences-reentrant"},
					Tries:      10, // a race is lost soon, but not each time
				}.Convict(t, clause, func() checkpoint.Store {
					pool := oneConnection(t, clause == "sequences-reentrant")
					return c.broken(New(pool, nil), pool)
				})
			}
		})
	}
}

func oneConnection(t *testing.T, one bool) *pgxpool.Pool {
	if !one {
		return testenv.Postgres(t)
	}
	return pgtest.EmptyPool(t, pgtest.OneConnection)
}

type oneStatement struct {
	*Store
	pool *pgxpool.Pool
}

func (o oneStatement) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c := checkpoint.Claimed{Lease: checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: r.Nonce}}}
	var last checkpoint.Checkpoint
	err := o.pool.QueryRow(ctx, o.Fill(claimAndLoad), k.Orchestrator, k.Session, r.Nonce, time.Now().UnixMicro()).
		Scan(&c.Fence.Epoch, &c.Born, &last.Turn, &last.RunID)
	if last.Turn >= 0 {
		c.Last = &last
	}
	return c, err
}

type likes struct {
	*Store
	pool *pgxpool.Pool
}

func (l likes) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := l.pool.Query(ctx, l.Fill(`SELECT session FROM {sessions} WHERE orchestrator = $1 AND session LIKE $2 || '%' ORDER BY session`), q.Orchestrator, q.Prefix)
		ids, err2 := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
		if err := errors.Join(err, err2); err != nil {
			yield("", err)
		}
	}
}

type cursor struct {
	*Store
	pool *pgxpool.Pool
}

func (c cursor) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := c.pool.Query(ctx, c.Fill(`SELECT session FROM {sessions} WHERE orchestrator = $1 ORDER BY session`), q.Orchestrator)
		if err != nil {
			yield("", err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); !yield(id, err) || err != nil {
				return
			}
		}
	}
}
