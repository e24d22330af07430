package orchestrator_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Backlog finds what is not finished by indexes, among many sessions, runs and effects that are.
func TestBacklogCost(t *testing.T) {
	t.Parallel()
	const sessions, most = 20_000, 50 // a look at one of the tables touches 350 blocks
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL)
	checkpoints, snapshots, effects := pgcheckpoint.New(p, nil), pgsnapshot.New(p, nil), pgledger.New(p, nil)
	pgtest.Exec(t, p, checkpoints.Schema()+snapshots.Schema()+effects.Schema())
	d := echo()
	bot := worldOf(checkpoints, snapshots).Start(t, d, Options{Ledger: effects})
	finish(t, p, d.Name, sessions)
	pgtest.Exec(t, p, "VACUUM ANALYZE")
	want := orchestrator.Backlog{Suspended: 1, Parked: 1, Owed: 2, OwedParked: 1, InDoubt: 1}
	before := server.Blocks()
	got, err := bot.Backlog(t.Context())
	blocks := server.Blocks() - before
	got.OldestSuspended, got.OldestParked, got.OldestInDoubt = 0, 0, 0
	if err != nil || got != want || blocks > most {
		t.Errorf("%+v, %v; %d blocks, at most %d are allowed", got, err, blocks, most)
	}
}

// finish writes sessions that have settled a turn, have an ended run and a completed effect, and a few that have not.
func finish(t *testing.T, p *pgxpool.Pool, bot string, sessions int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, sql := range []string{
		`INSERT INTO holdfast_sessions (orchestrator, session, owner, nonce, epoch, born, lease_until, turn, first, owed,
			failed, retry_at)
		SELECT $1, 's' || n, '', '', n, n, now(), 0, 0, CASE WHEN n <= 2 THEN 0 END, CASE WHEN n = 1 THEN 5 ELSE 0 END,
			CASE WHEN n = 1 THEN now() + interval '300 days' END
		FROM generate_series(1, $2::integer) n`,
		`INSERT INTO holdfast_runs (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce,
			found, error, parts, payload_version, started_at, saved_at, deleted_at)
		SELECT $1, 's' || n, 'r' || n, '', 0, 1, '', CASE n WHEN 1 THEN 'suspended' WHEN 2 THEN 'parked' ELSE 'deleted' END,
			1, n, 'n', 0, '', false, 0, now(), now(), CASE WHEN n > 2 THEN now() END
		FROM generate_series(1, $2::integer) n`,
		`INSERT INTO holdfast_effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state,
			attempts, epoch, nonce, args_sum, error, issued_at, finished_at)
		SELECT 'e' || n, $1, 's' || n, 'r' || n, 0, '', 'pay', '', '', 0, CASE n WHEN 1 THEN 'unknown' ELSE 'completed' END, 1,
			n, 'n', '', '', now(), now()
		FROM generate_series(1, $2::integer) n`,
	} {
		if _, err := p.Exec(ctx, sql, bot, sessions); err != nil {
			t.Fatal(err)
		}
	}
}
