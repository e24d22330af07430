package testenv_test

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgresIsOnesOwn(t *testing.T) {
	for range 2 {
		if _, err := testenv.Postgres(t).Exec(t.Context(), "CREATE TABLE same (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresIsDropped(t *testing.T) {
	var schema string
	t.Run("use", func(t *testing.T) {
		if err := testenv.Postgres(t).QueryRow(t.Context(), "SELECT current_schema").Scan(&schema); err != nil {
			t.Fatal(err)
		}
	})
	var left int
	err := testenv.Postgres(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1",
		schema).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d schemas %s after the test, %v", left, schema, err)
	}
}

func TestPostgresURLWithDatabaseSQL(t *testing.T) {
	db, err := sql.Open("pgx", testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var schema, encoding, collation string
	err = db.QueryRow(`SELECT current_schema, pg_encoding_to_char(encoding), datcollate
		FROM pg_database WHERE datname = current_database()`).Scan(&schema, &encoding, &collation)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(schema, "test_") || encoding != "UTF8" {
		t.Errorf("schema %q, encoding %q, collation %q", schema, encoding, collation)
	}
}

func TestRedisKeysAreDeleted(t *testing.T) {
	other, otherPrefix := testenv.Redis(t)
	other.Set(t.Context(), otherPrefix+":kept", 1, 0)
	var prefix string
	t.Run("use", func(t *testing.T) {
		client, p := testenv.Redis(t)
		prefix = p
		for i := range 2500 {
			if err := client.Set(t.Context(), prefix+string(rune('0'+i)), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if !regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`).MatchString(prefix) {
		t.Errorf("prefix %q", prefix)
	}
	for it := other.Scan(t.Context(), 0, prefix+"*", 1000).Iterator(); it.Next(t.Context()); {
		t.Fatalf("key %q is left", it.Val())
	}
	if n := other.Exists(t.Context(), otherPrefix+":kept").Val(); n != 1 {
		t.Error("the other test's key is gone")
	}
}

func TestSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", testenv.SQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "60000"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
}

// A verdictTB remembers how a test would have ended.
type verdictTB struct {
	testing.TB
	verdict, why string
}

func (tb *verdictTB) Helper() {}

func (tb *verdictTB) Skip(why ...any) { tb.end("skip", why) }

func (tb *verdictTB) Fatal(why ...any) { tb.end("fatal", why) }

func (tb *verdictTB) end(verdict string, why []any) {
	tb.verdict, tb.why = verdict, fmt.Sprint(why...)
	runtime.Goexit()
}

// verdict runs f as a test.
func verdict(t *testing.T, f func(testing.TB)) *verdictTB {
	tb := &verdictTB{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { f(tb) }) // Skip and Fatal end the goroutine
	wg.Wait()
	return tb
}

func TestUnavailable(t *testing.T) {
	missing := fmt.Errorf("%w: no redis-server", testenv.ErrUnavailable)
	for _, tt := range []struct {
		err            error
		required, want string
	}{
		{nil, "1", ""},
		{missing, "", "skip"},
		{missing, "1", "fatal"},
		{errors.New("does not start"), "", "fatal"},
	} {
		t.Setenv("HOLDFAST_TEST_REQUIRED", tt.required)
		tb := verdict(t, func(tb testing.TB) { testenv.Must(tb, tt.err) })
		if tb.verdict != tt.want {
			t.Errorf("%v, required %q: %q, want %q", tt.err, tt.required, tb.verdict, tt.want)
		}
	}
}

// Without the variables of make test, no test starts a server, also not one of its own. It is skipped and says which
// server it needs.
func TestSkipsWithoutServers(t *testing.T) {
	for _, variable := range []string{
		"HOLDFAST_POSTGRES", "HOLDFAST_REDIS", "HOLDFAST_TEST_REQUIRED",
	} {
		t.Setenv(variable, "")
	}
	for _, tt := range []struct {
		name  string
		use   func(testing.TB)
		needs string
	}{
		{"Postgres", func(tb testing.TB) { testenv.Postgres(tb) }, "PostgreSQL"},
		{"PostgresURL", func(tb testing.TB) { testenv.PostgresURL(tb) }, "PostgreSQL"},
		{"Redis", func(tb testing.TB) { testenv.Redis(tb) }, "Redis"},
		{"StartPostgres", func(tb testing.TB) { testenv.StartPostgres(tb, nil) }, "PostgreSQL"},
		{"StartReplicated", func(tb testing.TB) { testenv.StartReplicated(tb, false, nil) }, "PostgreSQL"},
		{"StartRedis", func(tb testing.TB) { testenv.StartRedis(tb, nil) }, "Redis"},
		{"StartRedisCluster", func(tb testing.TB) { testenv.StartRedisCluster(tb, nil) }, "Redis"},
		{"StartRedisPair", func(tb testing.TB) { testenv.StartRedisPair(tb, nil) }, "Redis"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tb := verdict(t, tt.use)
			if tb.verdict != "skip" || !strings.Contains(tb.why, "needs "+tt.needs+": run make test") {
				t.Errorf("%q: %s", tb.verdict, tb.why)
			}
		})
	}
}

func TestLeaks(t *testing.T) {
	testenv.Postgres(t).Close()
	testenv.StartRedis(t, nil)
	leaktest.None(t, testenv.Leaks()...)
}
