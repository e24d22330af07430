// Package transcript_test runs the cases of a transcript over all databases. What one database alone has is in a test
// with its name.
package transcript_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/redis/redistranscript"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitetranscript"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// databases hold transcripts. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) transcript.Store
}{
	{"memory", func(*testing.T) transcript.Store { return new(transcript.Memory) }},
	{"postgres", onPostgres.Open},
	{"sqlite", func(t *testing.T) transcript.Store {
		return onSQLite(t, sqlitetest.Open(t, testenv.SQLite(t)), "")
	}},
	{"redis", onRedis.Open},
}

func each(t *testing.T, test func(t *testing.T, open func(t *testing.T) transcript.Store)) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.open)
		})
	}
}

var onRedis = redistest.Kind[transcript.Store]{
	New: func(client redis.UniversalClient, prefix string) transcript.Store {
		return redistranscript.New(client, &redistranscript.Options{Prefix: prefix})
	},
	Suite: transcripttest.Run, Calls: calls,
	Tell:  func(ctx context.Context, s transcript.Store) []string { return tell(ctx, s, 2) },
	Model: func() transcript.Store { return new(transcript.Memory) },
	User:  "bot", Eviction: redisstore.ErrEviction,
}

func onSQLite(tb testing.TB, db *sql.DB, prefix string) transcript.Store {
	tb.Helper()
	s := sqlitetranscript.New(db, &sqlitetranscript.Options{Prefix: prefix})
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

func key(session string) transcript.Key { return transcript.Key{Orchestrator: "bot", Session: session} }

func span(from, through int64) transcript.Span { return transcript.Span{From: from, Through: through} }

// say appends entries of one message, whose text is the id, and returns the span of the last.
func say(t *testing.T, s transcript.Store, session string, ids ...string) (said transcript.Span) {
	t.Helper()
	for _, id := range ids {
		var err error
		said, err = s.Append(t.Context(), key(session), id, []message.Message{message.User(id)})
		check(t, err)
	}
	return said
}

// heard returns the texts of the messages of a session from 1 on, up to the first that is not there.
func heard(t *testing.T, s transcript.Store, session string) string {
	t.Helper()
	all, err := read(t.Context(), s, session, span(1, transcript.MaxNumber))
	check(t, err)
	return strings.Join(all, " ")
}

// read returns the texts of the messages of spans. It ends at what is damaged or not there.
func read(ctx context.Context, s transcript.Store, session string, spans ...transcript.Span) (all []string, err error) {
	for m, err := range s.Read(ctx, key(session), spans) {
		switch {
		case isDamage(err):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, m.Blocks[0].Text)
	}
	return all, nil
}

// calls calls every method and returns the errors by name.
func calls(ctx context.Context, s transcript.Store) map[string]error {
	_, appended := s.Append(ctx, key("s"), "call", []message.Message{message.User("call")})
	_, read := read(ctx, s, "s", span(1, 1))
	_, trimmed := s.Trim(ctx, key("s"), []transcript.Span{span(1, 1)}, time.Now())
	_, all := s.Trim(ctx, key("gone"), nil, time.Time{})
	return map[string]error{
		"Append": appended, "Read": read, "Trim": trimmed, "Trim of all": all,
		"Copy":  s.Copy(ctx, key("s"), key("copy"), []transcript.Span{span(1, 1)}),
		"Raise": s.(transcript.Raiser).Raise(ctx),
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
