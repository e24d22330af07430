package redissnapshot_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, o := range redistest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&o)
			defer client.Close()
			snapshottest.RunUnreachable(t, redissnapshot.New(client, nil))
		})
	}
}
