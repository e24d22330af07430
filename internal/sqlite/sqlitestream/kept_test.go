package sqlitestream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
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
	db, n := sqlitetest.Open(t, testenv.SQLite(t)), 0
	faulttest.StreamModel(t, 8, func(t *testing.T) stream.Store {
		n++
		return create(t, db, &sqlitestream.Options{Prefix: fmt.Sprintf("m%d_", n), Keep: 8})
	})
}

// old makes the last Append of all sessions an hour older.
func old(t *testing.T, db *sql.DB) {
	t.Helper()
	sqlitetest.Exec(t, db, "UPDATE holdfast_streams SET at = at - 3600000001")
}

// A session that is too old is not known, whether or not its rows are there. It begins anew, under any epoch.
func TestTTL(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	add(t, s, key("a"), 7, stream.Active, 3)
	add(t, s, key("b"), 7, stream.Active, 3)
	waits := tailtest.Read(t, s, key("b"), 0)
	for range 3 {
		if _, err := waits.Next(); err != nil {
			t.Fatal(err)
		}
	}
	old(t, db)
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

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Sweep removes what is too old, with its chunks.
func TestSweep(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	for i := range 50 {
		add(t, s, key(fmt.Sprint("old", i)), 1, stream.Active, 2)
	}
	old(t, db)
	add(t, s, key("new"), 1, stream.Ended, 2)
	if n, err := s.Sweep(t.Context(), 10); n != 10 || err != nil {
		t.Errorf("Sweep of 10: %d, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), 0); n != 40 || err != nil {
		t.Errorf("Sweep: %d, %v", n, err)
	}
	rows := count(t, db, "SELECT (SELECT count(*) FROM holdfast_streams) + (SELECT count(*) FROM holdfast_chunks)")
	if rows != 2 {
		t.Errorf("%d rows are left", rows)
	}
	if n, err := readError(t.Context(), s, key("new"), 0); n != 2 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
}

// The rows of chunks that are no longer kept are removed.
func TestTrim(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, &sqlitestream.Options{Keep: 10})
	for range 100 {
		add(t, s, key("a"), 1, stream.Active, 3)
		if n := count(t, db, "SELECT coalesce(sum(last - first + 1), 0) FROM holdfast_chunks"); n > 24 {
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

// What no store has written is gone, and damaged. After Delete the session begins anew.
func TestDamage(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	for name, spoil := range map[string]string{
		"no array":       "UPDATE holdfast_chunks SET data = '7' WHERE last = 4",
		"no JSON":        "UPDATE holdfast_chunks SET data = '{' WHERE last = 4",
		"too few":        "UPDATE holdfast_chunks SET data = '[1]' WHERE last = 4",
		"a row is lost":  "DELETE FROM holdfast_chunks WHERE last = 4",
		"numbers differ": "UPDATE holdfast_chunks SET first = first + 1 WHERE last = 4",
		"all are lost":   "DELETE FROM holdfast_chunks",
	} {
		k := key(name)
		for range 3 {
			add(t, s, k, 1, stream.Ended, 2)
		}
		sqlitetest.Exec(t, db, spoil)
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

// No statement reads a whole table.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	for name, text := range sqlitestream.Plans {
		plan := sqlitetest.Plan(t, db, s.Text(text), strings.Count(text, "?"))
		for line := range strings.Lines(plan) {
			if strings.Contains(line, "SCAN") && !strings.Contains(line, "VIRTUAL TABLE") {
				t.Errorf("%s: %s", name, line)
			}
			if strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// A thousand readers that wait leave the file to its writers, and get what another process appends soon.
func TestCrowd(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	first, second := sqlitetest.Open(t, dsn), sqlitetest.Open(t, dsn)
	writer, reader := create(t, first, nil), sqlitestream.New(second, nil)
	tailtest.Crowd(t, writer, reader, 1000, func() {
		began := time.Now()
		for range 20 {
			add(t, writer, key("other"), 1, stream.Active, 1)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("20 appends take %v beside the readers", took)
		}
	})
	if n := second.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	quarter, longest := tailtest.Delay(t, writer, reader, 20)
	t.Logf("a quarter of the chunks take %v, all %v at most", quarter, longest)
	if quarter > 150*time.Millisecond {
		t.Errorf("a chunk takes %v", quarter)
	}
}

// Every Keep is taken: a negative one is the default, and a large one is the most.
func TestKeepExtremes(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	for i, keep := range []int{math.MinInt, -1, stream.MaxKeep, math.MaxInt} {
		s := create(t, db, &sqlitestream.Options{Keep: keep})
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
