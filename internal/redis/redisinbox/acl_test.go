package redisinbox_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// A user with the documented rules passes the suite.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	client := redistest.As(t, admin, redistest.DocumentedRules(t))
	n := 0
	inboxtest.Run(t, func(*testing.T) inbox.Store {
		n++
		return redisinbox.New(client, &redisinbox.Options{Prefix: fmt.Sprintf("holdfast:%d:", n)})
	})
}
