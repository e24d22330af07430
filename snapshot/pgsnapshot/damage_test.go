package pgsnapshot_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A spoiled store damages runs by hand.
type spoiled struct {
	*pgsnapshot.Store
	pool *pgxpool.Pool
	set  string
}

func (s spoiled) Damage(ctx context.Context, k snapshot.Key) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_runs SET "+s.set+" WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"status = 'done'", "status = ''", "id = ''", "turn = -1", "attempt = -1", "seq = -1", "nonce = ''", "epoch = 0",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore {
				p := pool(t, nil)
				return spoiled{create(t, p, nil), p, set}
			})
		})
	}
}
