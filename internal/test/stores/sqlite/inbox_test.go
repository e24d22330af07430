package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
)

var items = contract{
	name: "inbox",
	open: func(db *sql.DB, o options) store {
		return boxStore{sqliteinbox.New(db, &sqliteinbox.Options{Prefix: o.prefix})}
	},
	tables:  []string{"holdfast_inbox"},
	longest: "inbox_order",
	schema:  inbox.ErrSchema, damaged: inbox.ErrDamaged, refused: inbox.ErrRefused,
	one: is[*inbox.DamagedError], verdicts: []error{inbox.ErrInvalid},
	missing: []missing{
		{"table", "DROP TABLE holdfast_inbox", "table holdfast_inbox", ""},
		{
			"column", "ALTER TABLE holdfast_inbox DROP COLUMN shown", "column shown of table holdfast_inbox", "Remove",
		},
		{"index", "DROP INDEX holdfast_inbox_order", "index holdfast_inbox_order", "Post Remove"},
	},
	unreachable: func(t *testing.T, s store) { inboxtest.RunUnreachable(t, s.(boxStore)) },

	// Ten answers for each session.
	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_inbox (orchestrator, session, kind, id, posted_by, shown, at, data)
		SELECT 'bot', printf('s%05d', i / 10), 'answer', 'q' || i, 'ada', '', i, '{}' FROM n`,
	plans: map[string]string{
		"SELECT posted_by": "sqlite_autoindex_holdfast_inbox_1 (orchestrator=? AND session=? AND kind=? AND id=?)",
		"AND session = ?3 AND (at, id)": "holdfast_inbox_order (orchestrator=? AND kind=? AND session=? AND " +
			"(at,id)>(?,?))",
		"(session, at, id) >":     "holdfast_inbox_order (orchestrator=? AND kind=? AND (session,at,id)>(?,?,?))",
		"kind = ?3 AND id = ?4":   "sqlite_autoindex_holdfast_inbox_1 (orchestrator=? AND session=? AND kind=? AND id=?)",
		"session = ?3 AND id":     "sqlite_autoindex_holdfast_inbox_1 (orchestrator=? AND session=? AND kind=? AND id=?)",
		"DELETE FROM":             "(orchestrator=? AND ",
		"DELETE FROM holdfast_in": "session=?",
	},
	lists: func(t *testing.T, of store) []list {
		s := of.(boxStore)
		return []list{{
			"all", named(s.Items(t.Context(), bot(""), inbox.Answer), itemName), 1000,
			func(i int) string { return fmt.Sprint("q", i) },
			func(ctx context.Context, i int) error {
				return s.Remove(ctx, bot(fmt.Sprintf("s%05d", i/10)), inbox.Answer, fmt.Sprint("q", i))
			},
		}}
	},
	convicts: map[string]broken{
		"the last one stays": {"post-second", []string{
			"DO NOTHING", "DO UPDATE SET posted_by = excluded.posted_by, data = excluded.data",
		}},
		"By in any case": {"post-by", []string{
			"SELECT posted_by FROM", "SELECT CASE WHEN posted_by = 'ada' THEN 'Ada' END FROM",
		}},
		"order is by id": {"items-order", []string{
			"INDEXED BY holdfast_inbox_order", "", "ORDER BY at, id", "ORDER BY id",
		}},
		"order is by time": {"items-sessions", []string{"ORDER BY session, at, id", "ORDER BY at, id"}},
		"a list of one session": {"items-sessions-many", []string{
			"(session, at, id) > (?3, ?4, ?5)", "session > ?3 AND ?4 IS NOT NULL AND ?5 IS NOT NULL",
		}},
		"Remove of a kind takes all": {"remove-kind", []string{
			"session = ?2 AND kind = ?3", "session = ?2 AND ?3 IS NOT NULL",
		}},
		"Remove takes patterns": {"remove-literally", []string{"AND id = ?4", "AND id LIKE ?4"}},
	},
	violations: func(ctx context.Context, open func() store, clause string) map[string]error {
		return inboxtest.Violations(ctx, func() inbox.Store { return open().(boxStore) }, clause)
	},
	statements: func(t *testing.T, of store) []executed {
		s, k := of.(boxStore), bot("s")
		posted := func(ctx context.Context) error { _, err := s.Post(ctx, item("s", "q", "ada")); return err }
		remove := func(kind inbox.Kind, ids ...string) func(context.Context) error {
			return func(ctx context.Context) error { return s.Remove(ctx, k, kind, ids...) }
		}
		return []executed{
			{"Post", "BEGIN INSERT COMMIT", posted},
			{"Post once more", "BEGIN INSERT SELECT COMMIT", posted},
			{"Items", "SELECT", func(ctx context.Context) error { return s.read(ctx, "s") }},
			{"Items of all", "SELECT", func(ctx context.Context) error { return s.read(ctx, "") }},
			{"Remove", "BEGIN DELETE DELETE COMMIT", remove(inbox.Answer, "a", "b")},
			{"Remove of a kind", "BEGIN DELETE COMMIT", remove(inbox.Answer)},
			{"Remove of all", "BEGIN DELETE COMMIT", remove("")},
		}
	},
	killed: func(db *sql.DB, say func(...any)) error {
		s := sqliteinbox.New(db, nil)
		for n := 0; ; n++ {
			id := fmt.Sprintf("%d of %d", n, os.Getpid())
			if first, err := s.Post(context.Background(), item("s", id, "ada")); err != nil || !first {
				return fmt.Errorf("%s: first is %t, %w", id, first, err)
			}
			say(id)
		}
	},
	check: func(t *testing.T, of store, _ *sql.DB) func(string) {
		return func(last string) {
			var n, pid int
			_, err := fmt.Sscanf(last, "%d of %d", &n, &pid)
			want(t, err, nil)
			for i := range n + 1 {
				first, err := of.(boxStore).Post(t.Context(), item("s", fmt.Sprintf("%d of %d", i, pid), "bob"))
				if first || err != nil {
					t.Errorf("answer %d was acknowledged, and is lost: %t, %v", i, first, err)
				}
			}
		}
	},
	processes: func(t *testing.T, s store, _ *sql.DB, dsn string) { boxtest.TestProcesses(t, s.(boxStore), dsn) },
	torn: torn{
		n: 40, at: 20,
		write: func(ctx context.Context, s store, i int, text string) error {
			it := item("s", fmt.Sprintf("q%02d", i), "ada")
			it.Data = json.RawMessage(`"` + text + `"`)
			_, err := s.(boxStore).Post(ctx, it)
			return err
		},
		check: checkTornItem,
	},
}

type boxStore struct{ *sqliteinbox.Store }

// openInbox is for package boxtest.
func openInbox(dsn string) (inbox.Store, func(), error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, err
	}
	return sqliteinbox.New(db, nil), func() { db.Close() }, nil
}

func item(session, id, by string) inbox.Item {
	return inbox.Item{
		Key: bot(session), Kind: inbox.Answer, ID: id, By: by, Shown: "sum", Data: json.RawMessage(`{"n":1}`),
	}
}

func itemName(it inbox.Item) string { return it.ID }

func (s boxStore) read(ctx context.Context, session string) error {
	return yielded(s.Items(ctx, bot(session), inbox.Answer))
}

var posted atomic.Int64

func (s boxStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	_, errs["Post"] = s.Post(ctx, item("all", fmt.Sprint("q", posted.Add(1)), "ada"))
	errs["Items"] = s.read(ctx, "all")
	errs["Items of all"] = s.read(ctx, "")
	errs["Remove"] = s.Remove(ctx, bot("all"), inbox.Answer, "q")
	return errs
}

func (s boxStore) ready(t *testing.T) []call {
	first := func(session string) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := s.Post(ctx, item(session, "q", "ada")); return err }
	}
	want(t, first("0")(t.Context()), nil)
	return []call{
		{do: first("1")},
		{do: func(ctx context.Context) error { return s.Remove(ctx, bot("1"), inbox.Answer) }},
		{reads: true, do: func(ctx context.Context) error { return s.read(ctx, "") }},
	}
}

func (s boxStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	session := fmt.Sprint("s", n)
	return cut{
		func(ctx context.Context) error { _, err := s.Post(ctx, item(session, "q", "ada")); return err },
		"[] []", "[q] []",
		func() string {
			all, damaged := damagedIn[*inbox.DamagedError](t,
				named(s.Items(t.Context(), bot(session), inbox.Answer), itemName))
			return fmt.Sprint(all, damaged)
		},
	}
}

// If SQLite itself cannot read the data of an item, this item is damaged. The others can be read, and posted.
func checkTornItem(t *testing.T, of store, torn torn, _ string) {
	s := of.(boxStore)
	for _, session := range []string{"s", ""} {
		ids, damaged := damagedIn[*inbox.DamagedError](t,
			named(s.Items(t.Context(), bot(session), inbox.Answer), itemName))
		if len(ids) != torn.n || !slices.IsSorted(ids) || !slices.Equal(damaged, ids[torn.at:torn.at+1]) {
			t.Errorf("session %q: %q, of which damaged are %q", session, ids, damaged)
		}
	}
	for it, err := range s.Items(t.Context(), bot("s"), inbox.Answer) {
		if err != nil && (!strings.Contains(err.Error(), "malformed") || it.By != "ada") {
			t.Errorf("%q by %q: %v", it.ID, it.By, err)
		}
	}
	if first, err := s.Post(t.Context(), item("s", fmt.Sprint("q", torn.at), "bob")); err != nil || first {
		want(t, err, inbox.ErrDamaged)
	}
	_, err := s.Post(t.Context(), item("s", "more", "ada"))
	want(t, err, nil)
}
