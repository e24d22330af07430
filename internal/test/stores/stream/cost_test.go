package stream_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, p, _ := onPostgres.Private(t, &testenv.Options{Count: true})
	s := pgstream.New(p, &pgstream.Options{Keep: 10})
	appended := func(epoch int64, n int) func() error {
		return func() error {
			_, err := s.Append(t.Context(), key("a"), "r", epoch, stream.Ended, docs(n))
			return err
		}
	}
	cost := pgtest.Costs(t, server)
	cost("first call of a store", 2, appended(2, 1))
	cost("append", 1, appended(2, 3))
	cost("append of a former owner", 2, appended(1, 3))
	cost("append without chunks", 1, appended(2, 0))
	cost("append after which chunks are trimmed", 2, appended(2, 20))
	cost("the next one", 1, appended(2, 1))
	cost("last", 1, func() error { _, _, _, err := s.Last(t.Context(), key("a")); return err })
	cost("read of all", 1, func() error { _, err := read(t.Context(), s, key("a"), stream.Newest); return err })
	cost("starts", 1, func() error { _, err := s.Starts(t.Context(), key("a")); return err })
	cost("delete", 2, func() error { return s.Delete(t.Context(), key("a")) })
	cost("sweep of nothing", 1, func() error { _, err := s.Sweep(t.Context(), 0); return err })
}

// No commit waits for the disk, also if that is the default.
func TestPostgresLazy(t *testing.T) {
	t.Parallel()
	settings := pgtest.Lazy()
	settings["synchronous_commit"] = "on"
	_, p, _ := onPostgres.Private(t, &testenv.Options{Settings: settings})
	s := pgstream.New(p, &pgstream.Options{Keep: 10})
	pgtest.Exec(t, p, "CHECKPOINT")
	for what, do := range map[string]func() error{
		"append":                   func() error { _, err := s.Append(t.Context(), key("a"), "r", 2, stream.Ended, docs(3)); return err },
		"append and trim":          func() error { _, err := s.Append(t.Context(), key("b"), "r", 2, stream.Ended, docs(30)); return err },
		"append of a former owner": func() error { _, err := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(3)); return err },
		"delete":                   func() error { return s.Delete(t.Context(), key("b")) },
	} {
		before := pgtest.Value[string](t, p, "SELECT pg_current_wal_flush_lsn()::text")
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if pgtest.Unflushed(t, p) == 0 {
			t.Errorf("%s is flushed, from %s", what, before)
		}
	}
}

// What an Append, a page and a question for readers cost does not depend on how many sessions there are. PostgreSQL
// need not have statistics.
func TestPostgresManySessions(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	const n = 20_000
	pgtest.Exec(t, p, fmt.Sprintf(`
		INSERT INTO holdfast_streams SELECT 'bot', 's' || i, 1, 'active', 'r', 1, 1, 3, now(), gen_random_uuid() FROM generate_series(1, %d) i`, n))
	pgtest.Exec(t, p, fmt.Sprintf(`
		INSERT INTO holdfast_chunks SELECT 'bot', 's' || i, l, l, 'r', 3, '[1]' FROM generate_series(1, %d) i, generate_series(1, 3) l`, n))
	for _, known := range []string{"nothing", "statistics"} {
		if known == "statistics" {
			pgtest.Exec(t, p, "ANALYZE")
		}
		for i := range 12 { // a plan becomes generic after five
			if i == 6 {
				testenv.FlushStatistics(t, p)
			}
			before := server.Blocks()
			k := key(fmt.Sprint("s", 1+i))
			add(t, s, k, 1, stream.Ended, 2)
			if got, err := read(t.Context(), s, k, 1); err != nil || got < 2 {
				t.Fatalf("%d chunks, %v", got, err)
			}
			if got := server.Blocks() - before; got > 400 {
				t.Errorf("with %s, call %d looks at %d blocks", known, i, got)
			}
		}
	}
}
