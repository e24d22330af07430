package pgcheckpoint_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, nil) })
}

func TestSweep(t *testing.T) {
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return open(t, &pgcheckpoint.Options{TTL: ttl})
	})
}

func BenchmarkStore(b *testing.B) { checkpointtest.Bench(b, open(b, nil)) }

func open(tb testing.TB, o *pgcheckpoint.Options) *pgcheckpoint.Store {
	tb.Helper()
	pool := testenv.Postgres(tb)
	s := pgcheckpoint.New(pool, o)
	if _, err := pool.Exec(tb.Context(), s.Schema()); err != nil {
		tb.Fatal(err)
	}
	return s
}
