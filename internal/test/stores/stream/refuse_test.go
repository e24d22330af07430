package stream_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/stream"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s stream.Store) {
		for call, err := range calls(t.Context(), s) {
			if !errors.Is(err, stream.ErrRefused) {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
	t.Run("postgres", func(t *testing.T) { onPostgres.TestUnreachable(t, refused) })
	t.Run("redis", func(t *testing.T) { onRedis.TestUnreachable(t, refused) })
}

func TestPostgresEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestPostgresSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestPostgresSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

func TestGrantsNeedAll(t *testing.T) { onPostgres.TestGrantsNeedAll(t) }

func TestRedisEviction(t *testing.T) { onRedis.TestEviction(t) }

// A server whose memory is full takes no chunks. It takes a Delete.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	add(t, s, key("a"), 1, stream.Active, 3)
	redistest.Fill(t, client)
	_, err := s.Append(t.Context(), key("a"), "r-1", 1, stream.Ended, docs(1))
	if !errors.Is(err, stream.ErrRefused) {
		t.Errorf("Append: %v", err)
	}
	if last, _, status, err := s.Last(t.Context(), key("a")); last != 3 || status != stream.Active || err != nil {
		t.Errorf("Last: %d, %s, %v", last, status, err)
	}
	check(t, s.Delete(t.Context(), key("a")))
}

// Each command of the documented rules is needed, except INFO, and those without which readers ask.
func TestRedisACLNeedsAll(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	rules := redistest.RulesOf(t, onRedis.User)
	for i, rule := range rules {
		if rule[0] != '+' || strings.HasPrefix(rule, "+cluster") ||
			slices.Contains([]string{"+info", "+command", "+asking", "+ping", "+subscribe", "+unsubscribe"}, rule) {
			continue
		}
		check(t, admin.FlushAll(t.Context()).Err())
		check(t, admin.ScriptFlush(t.Context()).Err())
		user := redistest.As(t, admin, slices.Delete(slices.Clone(rules), i, i+1))
		s := redisstream.New(user, &redisstream.Options{Keep: 2})
		_, first := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(3))
		_, second := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(3))
		_, newest := read(t.Context(), s, key("a"), stream.Newest)
		err := errors.Join(first, second, newest, s.Delete(t.Context(), key("a")))
		if err == nil {
			t.Errorf("%s is not needed", rule)
		}
		if errors.Is(err, stream.ErrDamaged) {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}
