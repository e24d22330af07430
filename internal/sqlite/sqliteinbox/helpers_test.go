package sqliteinbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

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

// list returns the ids of the answers of a session, or of all, and those that are damaged.
func list(t *testing.T, s inbox.Store, session string) (all, damaged []string) {
	t.Helper()
	for it, err := range s.Items(t.Context(), key(session), inbox.Answer) {
		if d, is := errors.AsType[*inbox.DamagedError](err); is {
			damaged = append(damaged, d.ID)
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, it.ID)
	}
	return all, damaged
}

func readAll(ctx context.Context, s inbox.Store, session string) error {
	for _, err := range s.Items(ctx, key(session), inbox.Answer) {
		if err != nil {
			return err
		}
	}
	return nil
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

var calls atomic.Int64

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, s *sqliteinbox.Store) map[string]error {
	errs := make(map[string]error)
	_, errs["Post"] = s.Post(ctx, item("all", fmt.Sprint("q", calls.Add(1)), "ada"))
	errs["Items"] = readAll(ctx, s, "all")
	errs["Items of all"] = readAll(ctx, s, "")
	errs["Remove"] = s.Remove(ctx, key("all"), inbox.Answer, "q")
	return errs
}

func newStore(tb testing.TB, o *sqliteinbox.Options) *sqliteinbox.Store {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqliteinbox.Options) *sqliteinbox.Store {
	tb.Helper()
	s := sqliteinbox.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}
