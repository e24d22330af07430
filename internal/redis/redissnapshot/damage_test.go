package redissnapshot_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A spoiled store damages runs by hand.
type spoiled struct {
	*redissnapshot.Store
	client redis.UniversalClient
	prefix string
	spoil  func(ctx context.Context, c redis.UniversalClient, key string) error
}

func (s spoiled) Damage(ctx context.Context, k snapshot.Key) error {
	return s.spoil(ctx, s.client, s.prefix+"{"+k.Orchestrator+"/"+k.Session+"}:run")
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	lose := func(field string) func(context.Context, redis.UniversalClient, string) error {
		return func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HDel(ctx, key, field).Err()
		}
	}
	write := func(field, value string) func(context.Context, redis.UniversalClient, string) error {
		return func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HSet(ctx, key, field, value).Err()
		}
	}
	for name, spoil := range map[string]func(context.Context, redis.UniversalClient, string) error{
		"no status": lose("status"), "no id": lose("id"), "no epoch": lose("epoch"), "no nonce": lose("nonce"),
		"no seq": lose("seq"), "no attempt": lose("attempt"), "no call": lose("call"), "no entry": lose("entry"),
		"no parts": lose("parts"), "no payload": lose("payload"), "no request": lose("request"),
		"no saved":  lose("saved"),
		"odd epoch": write("epoch", "x"), "odd status": write("status", "done"), "empty id": write("id", ""),
		"odd turn": write("turn", "-1"), "odd payload": write("payload", "{"),
		"no hash": func(ctx context.Context, c redis.UniversalClient, key string) error {
			if err := c.Del(ctx, key).Err(); err != nil {
				return err
			}
			return c.Set(ctx, key, "x", 0).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore {
				client, prefix := testenv.Redis(t)
				return spoiled{redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}), client, prefix, spoil}
			})
		})
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	snapshottest.RunOutgrown(t, func(t *testing.T) snapshottest.DamagingStore {
		client, prefix := testenv.Redis(t)
		grow := func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HSet(ctx, key, "payload", `[`+strings.Repeat(`{},`, 400_000)+`{}]`).Err()
		}
		return spoiled{redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}), client, prefix, grow}
	})
}
