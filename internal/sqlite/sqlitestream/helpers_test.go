package sqlitestream_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
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

func create(tb testing.TB, db *sql.DB, o *sqlitestream.Options) *sqlitestream.Store {
	tb.Helper()
	s := sqlitestream.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	return s
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
