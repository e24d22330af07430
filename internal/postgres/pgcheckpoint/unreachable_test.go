package pgcheckpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkpointtest.RunUnreachable(t, pgcheckpoint.New(pgtest.PoolOn(t, c.URL, c.Configure), nil))
		})
	}
}
