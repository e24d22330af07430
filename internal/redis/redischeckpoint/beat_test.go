package redischeckpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func newStore(t *testing.T) *redischeckpoint.Store {
	client, prefix := testenv.Redis(t)
	return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
}

func TestBeat(t *testing.T) {
	locktest.RunBeater(t, func(t *testing.T) lock.Beater { return newStore(t) })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	locktest.RunWatcher(t, func(t *testing.T) lock.Watcher { return newStore(t) })
}
