package sqliteinbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A spoiled store damages an item by hand.
type spoiled struct {
	*sqliteinbox.Store
	db  *sql.DB
	set string
}

func (s spoiled) Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	_, err := s.db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on")
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE holdfast_inbox SET "+s.set+
			" WHERE orchestrator = ?1 AND session = ?2 AND kind = ?3 AND id = ?4", k.Orchestrator, k.Session, string(kind), id)
	}
	_, off := s.db.ExecContext(ctx, "PRAGMA ignore_check_constraints = off")
	return errors.Join(err, off)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"data = '{'", "data = CAST(x'ff' AS TEXT)", "posted_by = ''", "posted_by = CAST(x'ff' AS TEXT)",
		"shown = CAST(zeroblob(9) AS TEXT)", "at = -1", "at = 9e17", "data = ''",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			inboxtest.RunDamaged(t, func(t *testing.T) inboxtest.DamagingStore {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				return spoiled{create(t, db, nil), db, set}
			})
		})
	}
}

// If SQLite itself cannot read the data of an item, this item is damaged. The others can be read, and posted.
func TestMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	s := create(t, db, nil)
	const n, torn = 40, 20
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("argument %02d ", i), 1000) }
	var all []string
	for i := range n {
		it := item("s", fmt.Sprintf("q%02d", i), "ada")
		it.Data = json.RawMessage(`"` + text(i) + `"`)
		post(t, s, it)
		all = append(all, it.ID)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:22])

	s = sqliteinbox.New(sqlitetest.Open(t, dsn), nil)
	for _, session := range []string{"s", ""} {
		if ids, damaged := list(t, s, session); !slices.Equal(ids, all) || !slices.Equal(damaged, all[torn:torn+1]) {
			t.Errorf("session %q: %q, of which damaged are %q", session, ids, damaged)
		}
	}
	for it, err := range s.Items(t.Context(), key("s"), inbox.Answer) {
		if err != nil && (!strings.Contains(err.Error(), "malformed") || it.By != "ada") {
			t.Errorf("%q by %q: %v", it.ID, it.By, err)
		}
	}
	first, err := s.Post(t.Context(), item("s", all[torn], "bob"))
	if err != nil && !errors.Is(err, inbox.ErrDamaged) || first {
		t.Errorf("Post of the torn item: %t, %v", first, err)
	}
	post(t, s, item("s", "more", "ada"))
}
