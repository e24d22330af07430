package pgsnapshot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.RunUnreachable(t, pgsnapshot.New(pgtest.PoolOn(t, c.URL, c.Configure), nil))
		})
	}
}
