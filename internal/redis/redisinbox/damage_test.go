package redisinbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A spoiled store damages an item by hand: it replaces the parts of the item's member.
type spoiled struct {
	*redisinbox.Store
	client redis.UniversalClient
	prefix string
	spoil  func(parts []string) []string
}

func (s spoiled) Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	box := s.prefix + "{" + k.Orchestrator + "/" + k.Session + "}:inbox:" + string(kind)
	all, err := s.client.ZRange(ctx, box, 0, -1).Result()
	if err != nil {
		return err
	}
	for _, member := range all {
		parts := strings.Split(member, "\x00")
		if parts[0] != "item" || parts[2] != id {
			continue
		}
		instead := strings.Join(s.spoil(parts), "\x00")
		return errors.Join(s.client.ZAdd(ctx, box, redis.Z{Member: instead}).Err(),
			s.client.ZRem(ctx, box, member).Err())
	}
	return fmt.Errorf("no item %q", id)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	part := func(n int, text string) func([]string) []string {
		return func(parts []string) []string {
			parts[n] = text
			return parts
		}
	}
	for name, spoil := range map[string]func([]string) []string{
		"no data": part(5, ""), "half data": part(5, "{"), "no By": part(3, ""), "a long By": part(3, strings.Repeat("x", 600)),
		"a By of bytes": part(3, "\xfe"), "a long sum": part(4, strings.Repeat("x", 600)),
		"no parts": func(parts []string) []string { return parts[:4] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.RunDamaged(t, func(t *testing.T) inboxtest.DamagingStore {
				client, prefix := testenv.Redis(t)
				return spoiled{redisinbox.New(client, &redisinbox.Options{Prefix: prefix}), client, prefix, spoil}
			})
		})
	}
}

// If no store wrote the key of a session, its items of that kind are damaged, and no others. Remove of all repairs it.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(ctx context.Context, c redis.UniversalClient, key string) error{
		"no set": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(c.Del(ctx, key).Err(), c.Set(ctx, key, "x", 0).Err())
		},
		"no head": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.ZRemRangeByLex(ctx, key, "[head", "(heae").Err()
		},
		"odd head": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(c.ZRemRangeByLex(ctx, key, "[head", "(heae").Err(),
				c.ZAdd(ctx, key, redis.Z{Member: "head\x00x y\x001"}).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			s := redisinbox.New(client, &redisinbox.Options{Prefix: prefix})
			stop := item("s", "r", "ada")
			stop.Kind = inbox.Stop
			post(t, s, item("s", "a", "ada"), item("s", "b", "ada"), item("t", "a", "ada"), stop)
			check(t, spoil(t.Context(), client, prefix+"{bot/s}:inbox:answer"))
			_, posted := s.Post(t.Context(), item("s", "c", "ada"))
			_, listed := list(t.Context(), s, "s")
			for i, err := range []error{posted, listed, s.Remove(t.Context(), key("s"), inbox.Answer, "a")} {
				d, is := errors.AsType[*inbox.DamagedError](err)
				if !is || d.Key != key("s") || d.What != string(inbox.Answer) {
					t.Errorf("call %d: %v", i, err)
				}
			}
			damaged, others := 0, 0
			for it, err := range s.Items(t.Context(), key(""), inbox.Answer) {
				if errors.Is(err, inbox.ErrDamaged) && it.Session == "s" {
					damaged++
				} else if check(t, err); it.Session == "t" {
					others++
				}
			}
			if damaged != 1 || others != 1 {
				t.Errorf("%d damaged, %d others", damaged, others)
			}
			check(t, s.Remove(t.Context(), key("s"), inbox.Answer))
			if got := ids(t, s, "s"); len(got) > 0 {
				t.Errorf("left are %q", got)
			}
			post(t, s, item("s", "a", "bob"))
			if got := ids(t, s, ""); len(got) != 2 {
				t.Errorf("listed are %q", got)
			}
			check(t, s.Remove(t.Context(), key("s"), ""))
		})
	}
}
