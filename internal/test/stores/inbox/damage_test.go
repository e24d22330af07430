package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A spoiled store damages an item by hand.
type spoiled struct {
	inbox.Store
	spoil func(ctx context.Context, it inbox.Item) error
}

func (s spoiled) Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	return s.spoil(ctx, inbox.Item{Key: k, Kind: kind, ID: id})
}

const whose = " WHERE orchestrator = $1 AND session = $2 AND kind = $3 AND id = $4"

func parts(it inbox.Item) []any { return []any{it.Orchestrator, it.Session, string(it.Kind), it.ID} }

// An opener returns an empty store.
type opener func(t *testing.T) inboxtest.DamagingStore

func TestDamaged(t *testing.T) {
	t.Parallel()
	run := func(database, name string, open func(t *testing.T) opener) {
		t.Run(database+"/"+name, func(t *testing.T) {
			t.Parallel()
			inboxtest.RunDamaged(t, open(t))
		})
	}
	for _, set := range []string{
		"posted_by = ''", "posted_by = repeat('p', 600)", "shown = repeat('x', 600)", "at = 'infinity'", "at = '-infinity'",
		"at = '1960-01-01Z'", "at = '20000-01-01Z'",
	} {
		run("postgres", set, func(t *testing.T) opener { return spoiledRow(t, set) })
	}
	for _, set := range []string{
		"data = '{'", "data = CAST(x'ff' AS TEXT)", "posted_by = ''", "posted_by = CAST(x'ff' AS TEXT)",
		"shown = CAST(zeroblob(9) AS TEXT)", "at = -1", "at = 9e17", "data = ''",
	} {
		run("sqlite", set, func(*testing.T) opener {
			return func(t *testing.T) inboxtest.DamagingStore {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				return spoiled{onSQLite(t, db, ""), func(ctx context.Context, it inbox.Item) error {
					text := "UPDATE holdfast_inbox SET " + set + strings.ReplaceAll(whose, "$", "?")
					return spoilFile(ctx, db, text, parts(it)...)
				}}
			}
		})
	}
	part := func(n int, text string) func([]string) []string {
		return func(parts []string) []string {
			parts[n] = text
			return parts
		}
	}
	for name, spoil := range map[string]func(parts []string) []string{
		"no data": part(5, ""), "half data": part(5, "{"), "no By": part(3, ""), "a long By": part(3, strings.Repeat("x", 600)),
		"a By of bytes": part(3, "\xfe"), "a long sum": part(4, strings.Repeat("x", 600)),
		"no parts": func(parts []string) []string { return parts[:4] },
	} {
		run("redis", name, func(*testing.T) opener { return spoiledMember(spoil) })
	}
}

func spoiledRow(t *testing.T, set string) opener {
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "")
	return func(t *testing.T) inboxtest.DamagingStore {
		pgtest.Clear(t, p)
		return spoiled{s, func(ctx context.Context, it inbox.Item) error {
			_, err := p.Exec(ctx, "UPDATE holdfast_inbox SET "+set+whose, parts(it)...)
			return err
		}}
	}
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

// spoiledMember returns stores that replace the parts of the member of an item.
func spoiledMember(spoil func(parts []string) []string) opener {
	return func(t *testing.T) inboxtest.DamagingStore {
		client, prefix := testenv.Redis(t)
		return spoiled{onRedis.New(client, prefix), func(ctx context.Context, it inbox.Item) error {
			box := prefix + "{" + it.Orchestrator + "/" + it.Session + "}:inbox:" + string(it.Kind)
			all, err := client.ZRange(ctx, box, 0, -1).Result()
			if err != nil {
				return err
			}
			for _, member := range all {
				parts := strings.Split(member, "\x00")
				if parts[0] == "item" && parts[2] == it.ID {
					instead := strings.Join(spoil(parts), "\x00")
					return errors.Join(client.ZAdd(ctx, box, redis.Z{Member: instead}).Err(),
						client.ZRem(ctx, box, member).Err())
				}
			}
			return fmt.Errorf("no item %q", it.ID)
		}}
	}
}

// torn returns a store that damages an item by taking a block of its data away.
func torn(t *testing.T, p *pgxpool.Pool, prefix string) spoiled {
	s := onPostgres.On(t, p, prefix)
	pgtest.Exec(t, p, "ALTER TABLE "+prefix+"inbox ALTER COLUMN data SET STORAGE EXTERNAL")
	return spoiled{s, func(ctx context.Context, it inbox.Item) error {
		long := "UPDATE " + prefix + "inbox SET data = to_jsonb(repeat('x', 10000))" + whose
		if _, err := p.Exec(ctx, long, parts(it)...); err != nil {
			return err
		}
		return testenv.LoseChunk(ctx, p, prefix+"inbox")
	}}
}

// An item whose data the server itself cannot read is damaged, as is an item that no store wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	n := 0
	inboxtest.RunDamaged(t, func(t *testing.T) inboxtest.DamagingStore {
		n++
		return torn(t, p, fmt.Sprintf("torn%d_", n))
	})
}

// An item that goes while a page is read one by one is not yielded, and the pages after it are.
func TestPostgresRemovedBesideDamage(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	s := torn(t, p, "torn_")
	const n = 200
	for i := range n {
		post(t, s, item("s", fmt.Sprintf("q%03d", i), "ada"))
	}
	for _, id := range []string{"q001", "q100"} {
		check(t, s.Damage(t.Context(), key("s"), inbox.Answer, id))
	}
	seen, damaged := 0, 0
	for it, err := range s.Items(t.Context(), key("s"), inbox.Answer) {
		if errors.Is(err, inbox.ErrDamaged) {
			damaged++
		} else {
			check(t, err)
		}
		if seen++; it.ID == "q050" {
			check(t, s.Remove(t.Context(), key("s"), inbox.Answer, "q120", "q050"))
		}
	}
	if seen != n-1 || damaged != 2 {
		t.Errorf("%d items, of which %d are damaged", seen, damaged)
	}
}

// If no store wrote the key of a session, its items of that kind are damaged, and no others. Remove of all repairs it.
func TestRedisDamagedKey(t *testing.T) {
	t.Parallel()
	headless := func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.ZRemRangeByLex(ctx, key, "[head", "(heae").Err()
	}
	for name, spoil := range map[string]func(ctx context.Context, c redis.UniversalClient, key string) error{
		"no set": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(c.Del(ctx, key).Err(), c.Set(ctx, key, "x", 0).Err())
		},
		"no head": headless,
		"odd head": func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(headless(ctx, c, key), c.ZAdd(ctx, key, redis.Z{Member: "head\x00x y\x001"}).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			s := onRedis.New(client, prefix)
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

// If SQLite itself cannot read the data of an item, this item is damaged. The others can be read, and posted.
func TestSQLiteMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	db := sqlitetest.Open(t, sqlitetest.DSN(path))
	s := onSQLite(t, db, "")
	const n, torn = 40, 20
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("argument %02d ", i), 1000) }
	for i := range n {
		it := item("s", fmt.Sprintf("q%02d", i), "ada")
		it.Data = json.RawMessage(`"` + text(i) + `"`)
		post(t, s, it)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:22])

	s = onSQLite(t, sqlitetest.Open(t, sqlitetest.DSN(path)), "")
	for _, session := range []string{"s", ""} {
		i := 0
		for it, err := range s.Items(t.Context(), key(session), inbox.Answer) {
			d, damaged := errors.AsType[*inbox.DamagedError](err)
			if it.ID != fmt.Sprintf("q%02d", i) || it.By != "ada" || damaged != (i == torn) ||
				damaged && (d.ID != it.ID || !strings.Contains(err.Error(), "malformed")) || err != nil && !damaged {
				t.Errorf("session %q: item %d is %q by %q: %v", session, i, it.ID, it.By, err)
			}
			i++
		}
		if i != n {
			t.Errorf("session %q: %d items", session, i)
		}
	}
	first, err := s.Post(t.Context(), item("s", fmt.Sprintf("q%02d", torn), "bob"))
	if err != nil && !errors.Is(err, inbox.ErrDamaged) || first {
		t.Errorf("Post of the torn item: %t, %v", first, err)
	}
	post(t, s, item("s", "more", "ada"))
}
