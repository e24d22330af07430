package redischeckpoint_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A spoil does one kind of damage.
type spoil struct {
	head, turn func(ctx context.Context, c redis.UniversalClient, key string) error
}

// A spoiled store damages sessions by hand.
type spoiled struct {
	*redischeckpoint.Store
	client redis.UniversalClient
	prefix string
	spoil  spoil
}

func (s spoiled) key(k checkpoint.Key) string {
	return s.prefix + "{" + k.Orchestrator + "/" + k.Session + "}:session"
}

func (s spoiled) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.spoil.head(ctx, s.client, s.key(k))
}

func (s spoiled) LoseHead(ctx context.Context, k checkpoint.Key) error {
	fields, err := s.client.HKeys(ctx, s.key(k)).Result()
	if err != nil {
		return err
	}
	head := slices.DeleteFunc(fields, func(f string) bool {
		return strings.Contains(f, ":") || f[0] >= '0' && f[0] <= '9'
	})
	return s.client.HDel(ctx, s.key(k), head...).Err()
}

func (s spoiled) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.spoil.turn(ctx, s.client, s.key(k)+":"+strconv.Itoa(turn))
}

// cut splits a key of a turn: the key of the session, and the number of the turn.
func cut(key string) (turns, turn string) {
	for i := len(key) - 1; ; i-- {
		if key[i] == ':' {
			return key[:i], key[i+1:]
		}
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	loses := func(field string) func(context.Context, redis.UniversalClient, string) error {
		return func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HDel(ctx, key, field).Err()
		}
	}
	writes := func(field, value string) func(context.Context, redis.UniversalClient, string) error {
		return func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.HSet(ctx, key, field, value).Err()
		}
	}
	ofTurn := func(f func(string) func(context.Context, redis.UniversalClient, string) error, suffix string) func(
		context.Context, redis.UniversalClient, string) error {
		return func(ctx context.Context, c redis.UniversalClient, key string) error {
			turns, turn := cut(key)
			return f(turn+suffix)(ctx, c, turns)
		}
	}
	written := func(value string) func(string) func(context.Context, redis.UniversalClient, string) error {
		return func(field string) func(context.Context, redis.UniversalClient, string) error {
			return writes(field, value)
		}
	}
	for name, spoil := range map[string]spoil{
		"nonce and details":  {loses("nonce"), ofTurn(loses, "")},
		"epoch and time":     {loses("epoch"), ofTurn(loses, ":at")},
		"turn and state":     {writes("turn", "x"), ofTurn(loses, ":state")},
		"born and run":       {loses("born"), ofTurn(loses, ":run")},
		"summarized and odd": {writes("summarized", "x"), ofTurn(written("{"), ":state")},
		"infinite and run":   {writes("first", "-inf"), ofTurn(loses, ":run")},
		"too long and run":   {writes("cleared", strings.Repeat("9", 400)), ofTurn(loses, ":run")},
		"fraction and run":   {writes("turn", "0.5"), ofTurn(loses, ":run")},
		"two clocks":         {writes("epoch", "x"), ofTurn(written("x"), ":at")},
		"torn details":       {writes("born", "x"), ofTurn(written("{"), "")},
		"details of another": {writes("turn", ""), ofTurn(written(`{"layout":2}`), "")},
		"no hash": {func(ctx context.Context, c redis.UniversalClient, key string) error {
			if err := c.Del(ctx, key).Err(); err != nil {
				return err
			}
			return c.Set(ctx, key, "x", 0).Err()
		}, ofTurn(loses, "")},
	} {
		t.Run(name, func(t *testing.T) {
			checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
				client, prefix := testenv.Redis(t)
				return spoiled{
					redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}), client, prefix, spoil,
				}
			})
		})
	}
}

// If a head was put back from an old copy, no settled turn is overwritten.
func TestHeadBehind(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	ctx := t.Context()
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n", time.Hour))).Lease
	for n, id := range []string{"r0", "r1"} {
		check(t, s.Append(ctx, l, turn(n, id), checkpoint.AppendOptions{}))
	}
	check(t, client.HSet(ctx, prefix+"{bot/a}:session", "turn", "0").Err())
	want(t, s.Append(ctx, l, turn(1, "another"), checkpoint.AppendOptions{}), checkpoint.ErrDamaged)
	check(t, client.HSet(ctx, prefix+"{bot/a}:session", "turn", "1").Err())
	cp := must[checkpoint.Checkpoint](t)(checkpoint.Load(ctx, s, key("a"), 1))
	if cp.RunID != "r1" {
		t.Errorf("turn 1 is of run %q", cp.RunID)
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	checkpointtest.RunOutgrown(t, func(t *testing.T) checkpointtest.DamagingStore {
		client, prefix := testenv.Redis(t)
		grow := func(ctx context.Context, c redis.UniversalClient, key string) error {
			turns, turn := cut(key)
			return c.HSet(ctx, turns, turn+":state", `[`+strings.Repeat(`{},`, 400_000)+`{}]`).Err()
		}
		return spoiled{
			redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}), client, prefix, spoil{turn: grow},
		}
	})
}

// A hand has written over an index. That concerns all sessions, so no error says that one of them is damaged.
func TestIndexDamaged(t *testing.T) {
	t.Parallel()
	for name, owing := range map[string]bool{":sessions": false, ":owing": true} {
		t.Run(name, func(t *testing.T) {
			client, prefix := testenv.Redis(t)
			s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, TTL: time.Hour})
			ctx, owes := t.Context(), checkpoint.AppendOptions{Owes: owing}
			claim := func(session string) checkpoint.Lease {
				return must[checkpoint.Claimed](t)(s.Claim(ctx, key(session), request("n", time.Hour))).Lease
			}
			settled, begun := claim("settled"), claim("begun")
			check(t, s.Append(ctx, settled, turn(0, "r"), owes))
			check(t, client.Set(ctx, prefix+"{bot}"+name, "x", 0).Err())
			var listed error
			for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
				listed = err
			}
			errs := map[string]error{
				"Append":   s.Append(ctx, begun, turn(0, "r"), owes),
				"Sessions": listed,
				"Delete":   s.Delete(ctx, settled),
			}
			if !owing {
				_, errs["Sweep"] = s.Sweep(ctx, 0)
			}
			for call, err := range errs {
				_, one := errors.AsType[*checkpoint.DamagedError](err)
				if one || !errors.Is(err, checkpoint.ErrDamaged) {
					t.Errorf("%s: got %v", call, err)
				}
			}
		})
	}
}
