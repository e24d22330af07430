// Package inbox_test runs the cases of an inbox over all databases. What one database alone has is in a test with its
// name.
package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.MainWith(m, boxtest.Roles(openWhere)) }

// databases hold inboxes. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) inbox.Store
}{
	{"memory", func(*testing.T) inbox.Store { return new(inbox.Memory) }},
	{"postgres", onPostgres.Open},
	{"sqlite", func(t *testing.T) inbox.Store { return onSQLite(t, sqlitetest.Open(t, testenv.SQLite(t)), "") }},
	{"redis", onRedis.Open},
}

func each(t *testing.T, test func(t *testing.T, open func(t *testing.T) inbox.Store)) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.open)
		})
	}
}

var onPostgres = pgtest.Kind[inbox.Store]{
	New: func(db pgtest.DB, prefix string) inbox.Store {
		return pginbox.New(db, &pginbox.Options{Prefix: prefix})
	},
	Suite: inboxtest.Run, Violations: inboxtest.Violations,
	Fill:  func(t *testing.T, s inbox.Store) { post(t, s, item("kept", "kept", "ada")) },
	Read:  func(t *testing.T, s inbox.Store) string { return strings.Join(ids(t, s, ""), " ") },
	Calls: calls, Writes: []string{"Post", "Remove", "Remove of a kind", "Remove of all"},
	Tables: []string{"inbox"}, Schema: inbox.ErrSchema, Refused: inbox.ErrRefused,
}

var onRedis = redistest.Kind[inbox.Store]{
	New: func(client redis.UniversalClient, prefix string) inbox.Store {
		return redisinbox.New(client, &redisinbox.Options{Prefix: prefix})
	},
	Suite: inboxtest.Run, Calls: calls,
	Tell:  func(ctx context.Context, s inbox.Store) []string { return tell(ctx, s, 2) },
	Model: func() inbox.Store { return new(inbox.Memory) },
	User:  "bot", Eviction: redisstore.ErrEviction,
}

func onSQLite(tb testing.TB, db *sql.DB, prefix string) inbox.Store {
	tb.Helper()
	s := sqliteinbox.New(db, &sqliteinbox.Options{Prefix: prefix})
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

// openWhere opens the store of a URL, which a space may divide from a prefix.
func openWhere(where string) (inbox.Store, func(), error) {
	url, prefix, _ := strings.Cut(where, " ")
	if strings.HasPrefix(url, "redis:") {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(o)
		return onRedis.New(client, prefix), func() { client.Close() }, nil
	}
	p, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return onPostgres.New(p, prefix), p.Close, nil
}

func key(session string) inbox.Key { return inbox.Key{Orchestrator: "bot", Session: session} }

func item(session, id, by string) inbox.Item {
	return inbox.Item{
		Key: key(session), Kind: inbox.Answer, ID: id, By: by, Shown: "sum", Data: json.RawMessage(`{"n":1}`),
	}
}

func post(t *testing.T, s inbox.Store, all ...inbox.Item) {
	t.Helper()
	for _, it := range all {
		if first, err := s.Post(t.Context(), it); err != nil || !first {
			t.Fatalf("Post of %q: %t, %v", it.ID, first, err)
		}
	}
}

// list returns the ids of the answers of a session, or of all if session is "".
func list(ctx context.Context, s inbox.Store, session string) (all []string, err error) {
	for it, err := range s.Items(ctx, key(session), inbox.Answer) {
		if err != nil {
			return all, err
		}
		all = append(all, it.ID)
	}
	return all, nil
}

func ids(t *testing.T, s inbox.Store, session string) (all []string) {
	t.Helper()
	all, err := list(t.Context(), s, session)
	check(t, err)
	return all
}

// calls calls every method and returns the errors by name.
func calls(ctx context.Context, s inbox.Store) map[string]error {
	_, posted := s.Post(ctx, item("s", "q", "ada"))
	_, listed := list(ctx, s, "s")
	_, all := list(ctx, s, "")
	return map[string]error{
		"Post": posted, "Items": listed, "Items of all": all,
		"Remove":           s.Remove(ctx, key("s"), inbox.Answer, "q"),
		"Remove of a kind": s.Remove(ctx, key("s"), inbox.Answer),
		"Remove of all":    s.Remove(ctx, key("s"), ""),
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place returns where other processes find the store on Redis.
func place(client *redis.Client, prefix string) string {
	return fmt.Sprintf("redis://%s/%d %s", client.Options().Addr, client.Options().DB, prefix)
}
