package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestRedisNames(t *testing.T) {
	t.Parallel()
	s := onRedis.New(redistest.Cluster(t), "")
	names := []string{
		"a", "a/b", "b", "/", "{", "}", "{}", "{a}", "}{", "%", "%2F", "%252F", "a:transcript", "\n", "\x01", "*", "😀",
		"\u202e", strings.Repeat("{", 512),
	}
	each := func(f func(k transcript.Key)) {
		for _, orchestrator := range names {
			for _, session := range names {
				f(transcript.Key{Orchestrator: orchestrator, Session: session})
			}
		}
	}
	each(func(k transcript.Key) {
		for _, id := range []string{k.Orchestrator, k.Session} {
			_, err := s.Append(t.Context(), k, id, said(fmt.Sprint(k, id)))
			check(t, err)
		}
	})
	each(func(k transcript.Key) {
		n := 0
		for m, err := range s.Read(t.Context(), k, []transcript.Span{span(1, 1)}) {
			check(t, err)
			if want := fmt.Sprint(k, k.Orchestrator); m.Blocks[0].Text != want {
				t.Errorf("%q is in %q", m.Blocks[0].Text, k)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d messages in %q", n, k)
		}
	})
}

// A call costs so many scripts. One command is sent for each.
func TestRedisRoundTrips(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	for call, err := range calls(t.Context(), s) { // Redis has all scripts then
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	trim := func(session string, before time.Time) func() {
		return func() { _, err := s.Trim(t.Context(), key(session), nil, before); check(t, err) }
	}
	copied := func(spans ...transcript.Span) func() {
		return func() { check(t, s.Copy(t.Context(), key("s"), key("t"), spans)) }
	}
	for _, c := range []struct {
		what string
		do   func()
		want int
	}{
		{"an entry", func() { say(t, s, "s", "a") }, 1},
		{"an entry of a new session", func() { say(t, s, "new", "a") }, 3},
		{"an entry once more", func() { say(t, s, "s", "a") }, 1},
		{"a store that does not know the time", func() { say(t, onRedis.New(client, ""), "s", "b") }, 2},
		{"a page", func() { heard(t, s, "s") }, 1},
		{"two spans", func() { _, err := read(t.Context(), s, "s", span(1, 1), span(3, 3)); check(t, err) }, 2},
		{"a copy to a new session", copied(span(1, 1)), 4},
		{"a copy", copied(span(1, 1), span(3, 3)), 2},
		{"a copy once more", copied(span(1, 1), span(3, 3)), 2},
		{"a copy of nothing", copied(span(9, 9)), 1},
		{"a trim of nothing", trim("s", time.UnixMicro(1)), 1},
		{"a trim", trim("s", future), 2},
		{"a trim of all", trim("s", zero), 2},
		{"a trim of all once more", trim("s", zero), 1},
	} {
		check(t, client.ConfigResetStat(t.Context()).Err())
		c.do()
		stats := redistest.Stats(t, client)
		if got := stats["cmdstat_evalsha"] + stats["cmdstat_eval"]; got != c.want {
			t.Errorf("%s: %d scripts, want %d", c.what, got, c.want)
		}
	}
}

// The cost of an Append and of a page does not depend on how many entries there are, or how large the others are.
func TestRedisManyEntries(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	const n, large = 600, 200 << 10
	for i := range n {
		say(t, s, "s", fmt.Sprint(i))
	}
	text := strings.Repeat("x", large)
	for i := range 20 {
		_, err := s.Append(t.Context(), key("s"), fmt.Sprint("large ", i), said(text))
		check(t, err)
	}
	for _, c := range []struct {
		what  string
		do    func()
		bytes int
	}{
		{"an entry", func() { say(t, s, "s", "more") }, 5_000},
		{"an entry once more", func() { say(t, s, "s", "7") }, 5_000},
		{"an early message", func() { _, err := read(t.Context(), s, "s", span(17, 17)); check(t, err) }, 5_000},
		{"the first large messages", func() {
			for _, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(n+1, n+20)}) {
				check(t, err)
				break
			}
		}, 6 * large},
		{"a trim", func() {
			_, err := s.Trim(t.Context(), key("s"), []transcript.Span{span(1, n)}, future)
			check(t, err)
		}, 5_000},
	} {
		check(t, client.ConfigResetStat(t.Context()).Err())
		c.do()
		stats := redistest.Stats(t, client)
		if sent := stats["total_net_output_bytes"]; sent > c.bytes {
			t.Errorf("%s costs %d bytes", c.what, sent)
		}
		if got := stats["cmdstat_zrange"]; got > 40 && c.what != "a trim" {
			t.Errorf("%s reads %d ranges", c.what, got)
		}
	}
	if got := heard(t, s, "s"); len(strings.Fields(got)) != n {
		t.Errorf("%d entries are left", len(strings.Fields(got)))
	}
}

// What is left of a session without entries is gone in an hour. A session with entries stays.
func TestRedisNothingStays(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	wantTTL := func(when string, least, most time.Duration) {
		t.Helper()
		keys := client.Keys(t.Context(), "*").Val()
		if !slices.Equal(keys, []string{"holdfast:{bot/s}:transcript"}) {
			t.Fatalf("%s there are %q", when, keys)
		}
		if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl < least || ttl > most {
			t.Errorf("%s it expires in %v", when, ttl)
		}
	}
	trim := func(before time.Time) {
		t.Helper()
		_, err := s.Trim(t.Context(), key("s"), nil, before)
		check(t, err)
	}
	say(t, s, "s", "a", "b", "c")
	trim(future)
	wantTTL("with an entry", -1, -1)
	trim(zero)
	wantTTL("without entries", 59*time.Minute, time.Hour)
	say(t, s, "s", "d")
	wantTTL("with a new entry", -1, -1)
	trim(zero)
	check(t, s.Copy(t.Context(), key("nobody"), key("s"), []transcript.Span{span(1, 1)}))
	wantTTL("after a copy of nothing", 59*time.Minute, time.Hour)
}

// No call fails while slots move: not for a new session, nor for a session that is gone.
func TestRedisSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	m := redistest.Moves{
		Tags: []string{"{bot/s0}", "{bot/s1}", "{bot/s2}", "{bot/t0}"},
		Live: func(ctx context.Context, w, n int) error {
			// Three lives are followed by another session in the same slot.
			return live(ctx, onRedis.New(client, fmt.Sprintf("p%d:", n/3)), fmt.Sprint("s", w), fmt.Sprint("t", w))
		},
	}
	m.Run(t, nodes, client)
}

// live appends to a session, copies it to another one, and deletes both.
func live(ctx context.Context, s transcript.Store, session, target string) error {
	for i, id := range []string{"a", "b", "a"} {
		if got, err := s.Append(ctx, key(session), id, said(id)); err != nil || got.From != int64(i%2+1) {
			return fmt.Errorf("append %s: %v, %w", id, got, err)
		}
	}
	err := errors.Join(
		s.Copy(ctx, key(session), key(target), []transcript.Span{span(1, 2)}),
		s.Copy(ctx, key(session), key(target), []transcript.Span{span(1, 2)}),
	)
	for _, session := range []string{session, target} {
		got, failed := read(ctx, s, session, span(1, 2))
		deleted, trimmed := s.Trim(ctx, key(session), nil, zero)
		if !slices.Equal(got, []string{"a", "b"}) || deleted != 2 {
			failed = errors.Join(failed, fmt.Errorf("read %q, deleted %d", got, deleted))
		}
		err = errors.Join(err, failed, trimmed)
	}
	return err
}

// A copy of many pages is of one moment of the source, also if the source is trimmed and appended to meanwhile.
func TestRedisCopyIsOneMoment(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s, others := onRedis.New(client, prefix), onRedis.New(client, prefix)
	const n = 600
	for round := range 6 {
		source, target := fmt.Sprint("s", round), fmt.Sprint("t", round)
		for i := range n {
			say(t, s, source, fmt.Sprint(i+1))
		}
		// Each Trim takes two more of them, the first and the last but one, and each Append follows on a Trim.
		var meanwhile sync.WaitGroup
		meanwhile.Go(func() {
			for i := range 40 {
				named := []transcript.Span{span(int64(i)+2, n-int64(i)-1)}
				_, err := others.Trim(t.Context(), key(source), named, future)
				_, failed := others.Append(t.Context(), key(source), fmt.Sprint("more ", i), said("more"))
				if err = errors.Join(err, failed); err != nil {
					t.Error(err)
				}
			}
		})
		err := s.Copy(t.Context(), key(source), key(target), []transcript.Span{span(1, n-1), span(n+1, n+100)})
		meanwhile.Wait()
		if err != nil && !strings.Contains(err.Error(), "changes all the time") {
			t.Fatal(err)
		}
		first, last := int64(0), int64(0)
		for m, err := range s.Read(t.Context(), key(target), []transcript.Span{span(1, n-1)}) {
			if err != nil {
				continue
			}
			last, err = strconv.ParseInt(m.Blocks[0].Text, 10, 64)
			check(t, err)
			if first == 0 {
				first = last
			}
		}
		// Trim i leaves i+2 to n-i-1. Before the first one there were 1 to n-1.
		if first != 0 && first+last != n+1 && (first != 1 || last != n-1) {
			t.Errorf("round %d: the copy has %d to %d", round, first, last)
		}
	}
}
