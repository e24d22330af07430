package redischeckpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func newStore(t *testing.T) *redischeckpoint.Store {
	client, prefix := testenv.Redis(t)
	return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
}

func TestBeat(t *testing.T) {
	checkpointtest.RunBeater(t, func(t *testing.T) checkpointtest.BeatingStore { return newStore(t) })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	checkpointtest.RunWatcher(t, func(t *testing.T) checkpointtest.WatchingStore { return newStore(t) })
}
