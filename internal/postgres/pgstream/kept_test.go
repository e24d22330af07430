package pgstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

func key(session string) stream.Key { return stream.Key{Orchestrator: "bot", Session: session} }

func docs(n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
	}
	return all
}

func add(t *testing.T, s stream.Store, k stream.Key, epoch int64, status stream.Status, n int) int64 {
	t.Helper()
	last, err := s.Append(t.Context(), k, "r-1", epoch, status, docs(n))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func readError(ctx context.Context, s stream.Store, k stream.Key, seq int64) (n int, err error) {
	for _, err := range s.Read(ctx, k, seq) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Random histories follow the model.
func TestModel(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	n := 0
	faulttest.StreamModel(t, 8, func(t *testing.T) stream.Store {
		n++
		return create(t, p, &pgstream.Options{Prefix: fmt.Sprintf("m%d_", n), Keep: 8})
	})
}

// old makes the last Append of all sessions an hour older.
func old(t *testing.T, p *pgxpool.Pool, s *pgstream.Store) {
	t.Helper()
	pgtest.Exec(t, p, s.Fill("UPDATE {streams} SET at = at - interval '1 hour'"))
}

// A session that is too old is not known, whether or not its rows are there. It begins anew, under any epoch.
func TestTTL(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	add(t, s, key("a"), 7, stream.Active, 3)
	add(t, s, key("b"), 7, stream.Active, 3)
	waits := tailtest.Read(t, s, key("b"), 0)
	for range 3 {
		if _, err := waits.Next(); err != nil {
			t.Fatal(err)
		}
	}
	old(t, p, s)
	if last, _, status, err := s.Last(t.Context(), key("a")); last != 0 || status != stream.Ended || err != nil {
		t.Errorf("last is %d, %s, %v", last, status, err)
	}
	if _, err := readError(t.Context(), s, key("a"), 2); !errors.Is(err, stream.ErrGone) {
		t.Errorf("Read: %v", err)
	}
	if n, err := readError(t.Context(), s, key("a"), 0); n != 0 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
	if err := waits.End(); !errors.Is(err, stream.ErrGone) {
		t.Errorf("a reader that waits: %v", err)
	}
	if last := add(t, s, key("a"), 1, stream.Ended, 2); last != 2 {
		t.Errorf("the last number is %d", last)
	}
	if n, err := readError(t.Context(), s, key("a"), 0); n != 2 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
}

// Sweep removes what is too old, with its chunks.
func TestSweep(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	for i := range 25 {
		add(t, s, key(fmt.Sprint("old", i)), 1, stream.Active, 2)
	}
	old(t, p, s)
	add(t, s, key("new"), 1, stream.Ended, 2)
	if n, err := s.Sweep(t.Context(), 10); n != 10 || err != nil {
		t.Errorf("Sweep of 10: %d, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), 0); n != 15 || err != nil {
		t.Errorf("Sweep: %d, %v", n, err)
	}
	const count = "SELECT (SELECT count(*) FROM {streams}) + (SELECT count(*) FROM {chunks})"
	if rows := pgtest.Value[int](t, p, s.Fill(count)); rows != 2 {
		t.Errorf("%d rows are left", rows)
	}
	if n, err := readError(t.Context(), s, key("new"), 0); n != 2 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
}

// Sweeps and appends at once leave no rows that belong to nobody.
func TestSweepUnderAppends(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, &pgstream.Options{TTL: time.Millisecond})
	over := make(chan error, 1)
	go func() {
		var err error
		for range 200 {
			_, swept := s.Sweep(t.Context(), 0)
			err = errors.Join(err, swept)
		}
		over <- err
	}()
	for done := false; !done; {
		for i := range 4 {
			add(t, s, key(fmt.Sprint("s", i)), 1, stream.Active, 1)
		}
		select {
		case err := <-over:
			if done = true; err != nil {
				t.Error(err)
			}
		default:
		}
	}
	orphans := pgtest.Value[int](t, p, s.Fill(`SELECT count(*) FROM {chunks} c WHERE NOT EXISTS (
		SELECT FROM {streams} s WHERE s.orchestrator = c.orchestrator AND s.session = c.session AND s.last >= c.last)`))
	if orphans != 0 {
		t.Errorf("%d rows of chunks belong to no session", orphans)
	}
}

// The rows of chunks that are no longer kept are removed.
func TestTrim(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, &pgstream.Options{Keep: 10})
	for range 100 {
		add(t, s, key("a"), 1, stream.Active, 3)
		if n := pgtest.Value[int](t, p, s.Fill("SELECT coalesce(sum(last - first + 1), 0) FROM {chunks}")); n > 24 {
			t.Fatalf("%d chunks are there", n)
		}
	}
	add(t, s, key("a"), 1, stream.Ended, 50)
	if n, err := readError(t.Context(), s, key("a"), 340); n != 10 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
	if _, err := readError(t.Context(), s, key("a"), 339); !errors.Is(err, stream.ErrGone) {
		t.Errorf("Read of what is trimmed: %v", err)
	}
}

// What no store has written is gone, and damaged.
func TestDamage(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	for name, spoil := range map[string]string{
		"no array":       "UPDATE {chunks} SET data = '7' WHERE last = 4",
		"too few":        "UPDATE {chunks} SET data = '[1]' WHERE last = 4",
		"a row is lost":  "DELETE FROM {chunks} WHERE last = 4",
		"numbers differ": "UPDATE {chunks} SET first = first + 1 WHERE last = 4",
		"all are lost":   "DELETE FROM {chunks}",
	} {
		k := key(name)
		for range 3 {
			add(t, s, k, 1, stream.Ended, 2)
		}
		pgtest.Exec(t, p, s.Fill(spoil))
		if _, err := readError(t.Context(), s, k, 2); !errors.Is(err, stream.ErrGone) ||
			!errors.Is(err, stream.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Delete(t.Context(), k); err != nil {
			t.Errorf("%s: Delete: %v", name, err)
		}
		if last := add(t, s, k, 1, stream.Ended, 1); last != 1 {
			t.Errorf("%s: last is %d after Delete", name, last)
		}
	}
}

// The server cannot read a row.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL)
	s := create(t, p, nil)
	pgtest.Exec(t, p, s.Fill("ALTER TABLE {chunks} ALTER data SET STORAGE EXTERNAL"))
	big := json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)
	if _, err := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, []json.RawMessage{big}); err != nil {
		t.Fatal(err)
	}
	if err := testenv.LoseChunk(t.Context(), p, "holdfast_chunks"); err != nil {
		t.Fatal(err)
	}
	if _, err := readError(t.Context(), s, key("a"), 0); !errors.Is(err, stream.ErrGone) ||
		!errors.Is(err, stream.ErrDamaged) {
		t.Errorf("Read: %v", err)
	}
}

// Every Keep is taken: a negative one is the default, and a large one is the most.
func TestKeepExtremes(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	for i, keep := range []int{math.MinInt, -1, stream.MaxKeep, math.MaxInt} {
		s := create(t, p, &pgstream.Options{Keep: keep})
		for want := range int64(3) {
			if last := add(t, s, key(fmt.Sprint(i)), 1, stream.Ended, 1); last != want+1 {
				t.Errorf("Keep %d: the last number is %d, want %d", keep, last, want+1)
			}
		}
		if n, err := readError(t.Context(), s, key(fmt.Sprint(i)), 0); n != 3 || err != nil {
			t.Errorf("Keep %d: Read: %d chunks, %v", keep, n, err)
		}
	}
}

// The next trim removes all chunks that are no longer kept, also if trims have failed, or Keep was larger before.
func TestTrimMore(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, &pgstream.Options{Keep: 100})
	for name, before := range map[string]*pgstream.Store{
		"Keep was larger": pgstream.New(p, nil),
		"trims failed":    s.Broken("trim", "{chunks} WHERE orch", "{chunks} WHERE 1 / (SELECT 0) = 1 AND orch"),
	} {
		for range 60 {
			add(t, before, key(name), 1, stream.Active, 100)
		}
		add(t, s, key(name), 1, stream.Active, 100)
		add(t, s, key(name), 1, stream.Ended, 100)
		const left = "SELECT coalesce(sum(last - first + 1), 0) FROM {chunks} WHERE session = '%s'"
		if n := pgtest.Value[int](t, p, s.Fill(fmt.Sprintf(left, name))); n > 200 {
			t.Errorf("%s: %d chunks are left", name, n)
		}
		if n, err := readError(t.Context(), s, key(name), 6100); n != 100 || err != nil {
			t.Errorf("%s: Read: %d chunks, %v", name, n, err)
		}
	}
}
