package pgcheckpoint_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
)

// A spoiled store damages sessions by hand.
type spoiled struct {
	*pgcheckpoint.Store
	pool       *pgxpool.Pool
	head, turn string
}

func (s spoiled) DamageHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_sessions SET "+s.head+" WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func (s spoiled) LoseHead(ctx context.Context, k checkpoint.Key) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM holdfast_sessions WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func (s spoiled) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_turns SET "+s.turn+
		" WHERE orchestrator = $1 AND session = $2 AND turn = $3", k.Orchestrator, k.Session, turn)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ head, turn string }{
		{"born = 0", "run_id = ''"},
		{"summarized = -1", "run_id = ''"},
		{"failed = -1", "run_id = ''"},
		{"summarized = 99", "run_id = repeat('x', 600)"},
	} {
		t.Run(c.head, func(t *testing.T) {
			t.Parallel()
			checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
				p := pool(t, func(*pgxpool.Config) {})
				s := pgcheckpoint.New(p, nil)
				create(t, p, s)
				return spoiled{s, p, c.head, c.turn}
			})
		})
	}
}
