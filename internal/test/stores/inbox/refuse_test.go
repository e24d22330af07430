package inbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { onPostgres.TestUnreachable(t, inboxtest.RunUnreachable) })
	t.Run("redis", func(t *testing.T) { onRedis.TestUnreachable(t, inboxtest.RunUnreachable) })
}

func TestPostgresEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestPostgresSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestPostgresSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

func TestGrantsNeedAll(t *testing.T) { onPostgres.TestGrantsNeedAll(t) }

func TestRedisEviction(t *testing.T) { onRedis.TestEviction(t) }

// A write that a server refuses is not done, and its error says so.
func TestRedisRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := onRedis.New(client, "")
			post(t, s, item("s", "a", "ada"))
			refuse()
			errs := map[string]error{}
			_, errs["post"] = s.Post(t.Context(), item("t", "b", "ada"))
			if refusal.Code != "OOM" {
				errs["remove"] = s.Remove(t.Context(), key("s"), inbox.Answer, "a")
			}
			for what, err := range errs {
				if !errors.Is(err, inbox.ErrRefused) || !strings.Contains(err.Error(), refusal.Remedy) {
					t.Errorf("%s: got %v, want %v that says %q", what, err, inbox.ErrRefused, refusal.Remedy)
				}
			}
		})
	}
}

// A server that takes no write can be read, also if a listing would remove stale entries.
func TestRedisReadWhereRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		if refusal.Code != "READONLY" && refusal.Code != "NOREPLICAS" {
			continue
		}
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := onRedis.New(client, "")
			post(t, s, item("s", "a", "ada"), item("t", "b", "ada"))
			check(t, client.Del(t.Context(), "holdfast:{bot/s}:inbox:answer").Err())
			refuse()
			if got := ids(t, s, ""); len(got) != 1 || got[0] != "b" {
				t.Errorf("listed %q", got)
			}
		})
	}
}

// At maxmemory an item is refused, and leaves no trace. Lists and removals pass. Otherwise it would be impossible to
// make room.
func TestRedisMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	post(t, s, item("s", "a", "ada"), item("s", "b", "ada"), item("t", "c", "ada"), item("gone", "d", "ada"))
	check(t, client.Del(t.Context(), "holdfast:{bot/gone}:inbox:answer").Err())
	redistest.Fill(t, client)
	before := redistest.Digest(t, client)
	for _, session := range []string{"s", "new"} {
		if _, err := s.Post(t.Context(), item(session, "x", "ada")); !errors.Is(err, inbox.ErrRefused) {
			t.Errorf("got %v, want %v", err, inbox.ErrRefused)
		}
	}
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}
	if first, err := s.Post(t.Context(), item("s", "a", "bob")); err != nil || first {
		t.Errorf("bob: %t, %v", first, err)
	}
	check(t, s.Remove(t.Context(), key("s"), inbox.Answer, "a"))
	check(t, s.Remove(t.Context(), key("t"), ""))
	if got := ids(t, s, ""); len(got) != 1 || got[0] != "b" {
		t.Errorf("listed %q", got)
	}
}

// The refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRedisRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	s := onRedis.New(client, "")
	post(t, s, item("s", "a", "ada")) // Redis has the scripts now
	other := redis.NewClient(client.Options())
	defer other.Close()
	other.AddHook(&deafLater{})
	_, err := onRedis.New(other, "").Post(t.Context(), item("s", "b", "ada"))
	if err == nil || errors.Is(err, inbox.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("got %v, want an error that is not %v", err, inbox.ErrRefused)
	}
	if got := ids(t, s, "s"); len(got) != 2 {
		t.Errorf("listed %q", got)
	}
}

// deafLater lets the first two scripts run, loses the answer of the second, and refuses later ones.
type deafLater struct{ sent int }

func (d *deafLater) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *deafLater) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		switch d.sent++; d.sent {
		case 1:
			return next(ctx, cmd)
		case 2:
			return errors.Join(next(ctx, cmd), io.EOF)
		}
		return redistest.Reply("READONLY You can't write against a read only replica.")
	}
}

func (d *deafLater) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
