package transcript_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// A spoiled store damages an entry by hand.
type spoiled struct {
	transcript.Store
	spoil func(ctx context.Context, k transcript.Key, s transcript.Span) error
}

func (s spoiled) Damage(ctx context.Context, k transcript.Key, said transcript.Span) error {
	return s.spoil(ctx, k, said)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	run := func(database, name string, open func(t *testing.T) transcripttest.DamagingStore) {
		t.Run(database+"/"+name, func(t *testing.T) {
			t.Parallel()
			transcripttest.RunDamaged(t, open)
		})
	}
	for _, set := range []string{
		"body = ''", "body = '['", "body = '[]'", "body = '{}'", "body = CAST(x'ff' AS TEXT)",
		"body = CAST(zeroblob(9) AS TEXT)", "body = replace(body, '\"v\":1', '\"v\":0')",
	} {
		run("sqlite", set, func(t *testing.T) transcripttest.DamagingStore { return spoiledRow(t, set) })
	}
	for name, spoil := range map[string]func(body string) string{
		"empty": func(string) string { return "" }, "half": func(body string) string { return body[:len(body)/2] },
		"none":  func(string) string { return "[]" },
		"bytes": func(body string) string { return strings.ReplaceAll(body, "text", "\xfe") },
	} {
		run("redis", name, func(t *testing.T) transcripttest.DamagingStore { return spoiledMember(t, spoil) })
	}
}

func spoiledRow(t *testing.T, set string) spoiled {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	return spoiled{onSQLite(t, db, ""), func(ctx context.Context, k transcript.Key, s transcript.Span) error {
		return spoilFile(ctx, db, "UPDATE holdfast_messages SET "+set+
			" WHERE orchestrator = ?1 AND session = ?2 AND first = ?3", k.Orchestrator, k.Session, s.From)
	}}
}

// spoilFile executes a statement that the constraints of the tables would not let pass.
func spoilFile(ctx context.Context, db *sql.DB, text string, args ...any) error {
	_, err := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on")
	if err == nil {
		_, err = db.ExecContext(ctx, text, args...)
	}
	_, off := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = off")
	return errors.Join(err, off)
}

// spoiledMember returns a store that replaces the body of an entry.
func spoiledMember(t *testing.T, spoil func(body string) string) spoiled {
	client, prefix := testenv.Redis(t)
	return spoiled{onRedis.New(client, prefix), func(ctx context.Context, k transcript.Key, s transcript.Span) error {
		set := prefix + "{" + k.Orchestrator + "/" + k.Session + "}:transcript"
		all, err := client.ZRange(ctx, set, 0, -1).Result()
		start := fmt.Sprintf("body\x00%016d\x00", s.From)
		for _, member := range all {
			if body, is := strings.CutPrefix(member, start); is {
				return errors.Join(client.ZRem(ctx, set, member).Err(),
					client.ZAdd(ctx, set, redis.Z{Member: start + spoil(body)}).Err())
			}
		}
		return errors.Join(err, fmt.Errorf("no entry %v", s))
	}}
}

// If no store wrote the key of a session, its transcript is damaged, and no other. A Trim of all repairs it.
func TestRedisDamagedKey(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := onRedis.New(client, prefix)
	say(t, s, "t", "a")
	check(t, client.Set(t.Context(), prefix+"{bot/s}:transcript", "x", 0).Err())
	_, appended := s.Append(t.Context(), key("s"), "a", said("a"))
	_, trimmed := s.Trim(t.Context(), key("s"), nil, future)
	for i, err := range []error{
		appended, trimmed, s.Copy(t.Context(), key("s"), key("u"), []transcript.Span{span(1, 1)}),
		s.Copy(t.Context(), key("t"), key("s"), []transcript.Span{span(1, 1)}),
	} {
		if d, is := errors.AsType[*transcript.DamagedError](err); !is || d.Key != key("s") {
			t.Errorf("call %d: %v", i, err)
		}
	}
	n := 0
	for _, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, 2), span(4, transcript.MaxNumber)}) {
		if n++; !isDamage(err) {
			t.Error(err)
		}
	}
	if n != 1 || heard(t, s, "t") != "a" {
		t.Errorf("%d errors", n)
	}
	if deleted, err := s.Trim(t.Context(), key("s"), nil, zero); err != nil || deleted != 0 {
		t.Errorf("Trim: %d, %v", deleted, err)
	}
	if got := say(t, s, "s", "b"); got != span(1, 1) {
		t.Errorf("the first entry is at %v", got)
	}
}

// Entries whose numbers no store wrote are damaged. A Trim of all deletes them too.
func TestRedisDamagedNumbers(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := onRedis.New(client, prefix)
	set := prefix + "{bot/s}:transcript"
	say(t, s, "s", "a", "b", "c")
	all, err := client.ZRange(t.Context(), set, 0, -1).Result()
	check(t, err)
	for _, member := range all {
		if strings.HasPrefix(member, fmt.Sprintf("entry\x00%016d", 2)) {
			check(t, client.ZRem(t.Context(), set, member).Err())
		}
	}
	for _, odd := range []string{"entry\x00", "entry\x00x", fmt.Sprintf("entry\x00%016d\x00x", 2)} {
		check(t, client.ZAdd(t.Context(), set, redis.Z{Member: odd}).Err())
	}
	if got := fmt.Sprint(there(t.Context(), s, "s")[:3]); !strings.HasPrefix(got, `[a damaged: messages "2"`) ||
		!strings.HasSuffix(got, " c]") {
		t.Errorf("read %s", got)
	}
	_, again := s.Append(t.Context(), key("s"), "b", said("b"))
	for i, err := range []error{again, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 3)})} {
		if !isDamage(err) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	_, err = s.Trim(t.Context(), key("s"), nil, zero)
	check(t, err)
	if n := client.ZLexCount(t.Context(), set, "[entry", "(entrz").Val(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
