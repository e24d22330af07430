package transcript_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

// many is how many messages a large transcript has, each in an entry of its own.
const many = 100_000

// A large store has a session with many entries, as if they had been appended. took returns how many statements or
// scripts a call has cost, and how long the server was busy with the longest of them, if the server tells.
type large struct {
	transcript.Store
	took func() (n int, longest time.Duration)
}

// manyRows are the entries as rows. The names of the parts differ between databases.
const manyRows = `
	WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
	INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
	SELECT 'bot', 's', i, i, 'id' || i, AT, '[{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"m' || i || '"}]}]'
	FROM n`

func largePostgres(t *testing.T) large {
	server, p, s := onPostgres.Private(t, &testenv.Options{Count: true})
	pgtest.Exec(t, p, strings.Replace(manyRows, "AT", "'2020-01-01Z'::timestamptz", 1))
	pgtest.Exec(t, p, "INSERT INTO holdfast_transcripts VALUES ('bot', 's', 100000)")
	before := server.Statements()
	return large{s, func() (n int, _ time.Duration) {
		n = int(server.Statements() - before)
		before += int64(n)
		return n, 0
	}}
}

func largeSQLite(t *testing.T) large {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := onSQLite(t, db, "")
	sqlitetest.Exec(t, db, strings.Replace(manyRows, "AT", "1600000000000000", 1))
	return large{s, func() (int, time.Duration) { return 0, 0 }}
}

func largeRedis(t *testing.T) large { return redisWith(t, many) }

// redisWith returns a Redis whose session has n entries.
func redisWith(t *testing.T, n int) large {
	_, client := redistest.Server(t, redis.Options{ReadTimeout: time.Minute})
	pipe := client.Pipeline()
	for i := 1; i <= n; i++ {
		z := func(format string, args ...any) redis.Z {
			return redis.Z{Member: strings.ReplaceAll(fmt.Sprintf(format, args...), " ", "\x00")}
		}
		pipe.ZAdd(t.Context(), "holdfast:{bot/s}:transcript",
			z("entry %016d %d 1600000000000000 call%d id%d", i, i, i, i), z("id id%d %016d", i, i),
			z(`body %016d [{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"m%d"}]}]`, i, i))
		if i%1000 == 0 || i == n {
			_, err := pipe.Exec(t.Context())
			check(t, err)
		}
	}
	check(t, client.ConfigSet(t.Context(), "slowlog-log-slower-than", "1000").Err())
	return large{onRedis.New(client, ""), func() (int, time.Duration) {
		stats := redistest.Stats(t, client)
		slow, err := client.SlowLogGet(t.Context(), -1).Result()
		reset := client.Do(t.Context(), "SLOWLOG", "RESET").Err()
		check(t, errors.Join(err, client.ConfigResetStat(t.Context()).Err(), reset))
		longest := time.Duration(0)
		for _, e := range slow {
			longest = max(longest, e.Duration)
		}
		return stats["cmdstat_evalsha"] + stats["cmdstat_eval"], longest
	}}
}

func largeMemory(t *testing.T) large {
	s := new(transcript.Memory)
	for i := range 1000 {
		_, err := s.Append(t.Context(), key("s"), fmt.Sprint(i), messages(many/1000))
		check(t, err)
	}
	return large{s, func() (int, time.Duration) { return 0, 0 }}
}

// A transcript of 100,000 entries is read page by page, copied in parts, and trimmed. A process needs the memory of a
// page, and other clients of a Redis wait for one part.
func TestLarge(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) large{
		"memory": largeMemory, "postgres": largePostgres, "sqlite": largeSQLite, "redis": largeRedis,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.took()
			cost := func(what string, do func()) (n int) {
				t.Helper()
				begin := time.Now()
				do()
				d := time.Since(begin)
				n, longest := s.took()
				t.Logf("%s: %v, %d statements or scripts, the longest %v", what, d.Round(time.Millisecond), n, longest)
				return n
			}
			cost("an entry", func() { say(t, s, "s", "new") })
			cost("a known entry", func() { say(t, s, "s", "new") })
			cost("Read of all", func() { s.wantSmallRead(t) })
			cost("Read of a message", func() {
				_, err := read(t.Context(), s, "s", span(70_000, 70_000))
				check(t, err)
			})
			cost("Copy of 20,000", func() {
				check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(30_001, 50_000)}))
			})
			all := make([]transcript.Span, transcript.MaxSpans)
			for i := range all {
				all[i] = span(int64(i)*20+1, int64(i)*20+10)
			}
			kept := 0
			parts := cost("Trim by 4,096 spans", func() {
				kept = many + 1 - trim(t, s, "s", time.Now().Add(time.Hour), all...)
			})
			if name != "memory" && kept != 10*transcript.MaxSpans+1 {
				t.Errorf("%d are kept", kept)
			}
			if name == "redis" && parts < (many-kept)/200 {
				t.Errorf("Trim is in %d parts", parts)
			}
			cost("Trim that finds nothing", func() { trim(t, s, "s", time.UnixMicro(1)) })
			cost("Trim of all", func() {
				if n := trim(t, s, "s", zero); n != kept {
					t.Errorf("%d of %d are deleted", n, kept)
				}
			})
			if got := say(t, s, "s", "first"); got != span(1, 1) {
				t.Errorf("after it the first is %v", got)
			}
		})
	}
}

// wantSmallRead reads all, and looks now and then how much memory that takes.
func (s large) wantSmallRead(t *testing.T) {
	t.Helper()
	var stats runtime.MemStats
	used := func() int64 {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before, n, most := used(), 0, int64(0)
	for _, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, many)}) {
		check(t, err)
		if n++; n%25_000 == 100 {
			most = max(most, used()-before)
		}
	}
	if t.Logf("Read holds %d KiB", most>>10); n != many || most > 8<<20 {
		t.Errorf("%d messages, %d KiB", n, most>>10)
	}
}

// A Copy on Redis is one command. More than its bound is refused, and nothing is copied.
func TestRedisCopyTooMuch(t *testing.T) {
	s := redisWith(t, 20_001)
	err := s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 20_001)})
	if err == nil || !strings.Contains(err.Error(), "copy fewer") {
		t.Errorf("got %v", err)
	}
	if got := there(t.Context(), s, "t"); len(got) != 1 {
		t.Errorf("there are %d messages", len(got))
	}
	check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 20_000)}))
	large := strings.Repeat("x", 15<<20)
	for i := range 5 {
		_, err := s.Append(t.Context(), key("large"), fmt.Sprint(i), said(large))
		check(t, err)
	}
	err = s.Copy(t.Context(), key("large"), key("u"), []transcript.Span{span(1, 5)})
	if err == nil || !strings.Contains(err.Error(), "copy fewer") {
		t.Errorf("got %v", err)
	}
	check(t, s.Copy(t.Context(), key("large"), key("u"), []transcript.Span{span(1, 4)}))
	check(t, s.Copy(t.Context(), key("large"), key("u"), []transcript.Span{span(5, 5)}))
	if n := trim(t, s, "u", zero); n != 5 {
		t.Errorf("%d are deleted", n)
	}
}

// Entries of the largest size, on each database. A Read holds a page of them.
func TestLargest(t *testing.T) {
	text := strings.Repeat("x", transcript.MaxEntry-200)
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			s := d.open(t)
			for i := range 2 {
				begin := time.Now()
				_, err := s.Append(t.Context(), key("s"), fmt.Sprint(i), said(text))
				check(t, err)
				t.Logf("Append of 16 MiB: %v", time.Since(begin).Round(time.Millisecond))
			}
			got, err := read(t.Context(), s, "s", span(1, 2))
			if check(t, err); !slices.Equal(got, []string{text, text}) {
				t.Errorf("%d messages", len(got))
			}
			check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(2, 2)}))
			if n := trim(t, s, "t", zero); n != 1 {
				t.Errorf("%d are deleted", n)
			}
		})
	}
}
