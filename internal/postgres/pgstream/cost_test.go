package pgstream_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

// The test counts at the server what each call costs.
func TestStatements(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL)
	s := create(t, p, &pgstream.Options{Keep: 10})
	appended := func(epoch int64, n int) func() error {
		return func() error {
			_, err := s.Append(t.Context(), key("a"), "r", epoch, stream.Ended, docs(n))
			return err
		}
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", appended(2, 1), 2},
		{"append", appended(2, 3), 1},
		{"append of a former owner", appended(1, 3), 2},
		{"append without chunks", appended(2, 0), 1},
		{"append after which chunks are trimmed", appended(2, 20), 2},
		{"the next one", appended(2, 1), 1},
		{"last", func() error { _, _, _, err := s.Last(t.Context(), key("a")); return err }, 1},
		{"read of all", func() error { _, err := readError(t.Context(), s, key("a"), stream.Newest); return err }, 1},
		{"delete", func() error { return s.Delete(t.Context(), key("a")) }, 2},
		{"sweep of nothing", func() error { _, err := s.Sweep(t.Context(), 0); return err }, 1},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// No commit waits for the disk, also if that is the default.
func TestLazy(t *testing.T) {
	t.Parallel()
	settings := pgtest.Lazy()
	settings["synchronous_commit"] = "on"
	server := testenv.StartPostgres(t, &testenv.Options{Settings: settings})
	p := pgtest.PoolOn(t, server.URL)
	s := create(t, p, &pgstream.Options{Keep: 10})
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
func TestManySessions(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := create(t, p, nil)
	const n = 20_000
	pgtest.Exec(t, p, s.Fill(fmt.Sprintf(`
		INSERT INTO {streams} SELECT 'bot', 's' || i, 1, 'active', 'r', 1, 1, 3, now(), gen_random_uuid() FROM generate_series(1, %d) i`, n)))
	pgtest.Exec(t, p, s.Fill(fmt.Sprintf(`
		INSERT INTO {chunks} SELECT 'bot', 's' || i, l, l, 'r', 3, '[1]' FROM generate_series(1, %d) i, generate_series(1, 3) l`, n)))
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
			if got, err := readError(t.Context(), s, k, 1); err != nil || got < 2 {
				t.Fatalf("%d chunks, %v", got, err)
			}
			if got := server.Blocks() - before; got > 400 {
				t.Errorf("with %s, call %d looks at %d blocks", known, i, got)
			}
		}
	}
}
