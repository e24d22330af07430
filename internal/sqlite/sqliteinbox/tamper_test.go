package sqliteinbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A tampering stands between database/sql and SQLite. It counts what is executed, and replaces parts of statements.
type tampering struct {
	driver.Driver
	dsn     string
	replace *strings.Replacer

	mu       sync.Mutex // protects following field
	executed []string
}

func (s *tampering) Connect(context.Context) (driver.Conn, error) {
	c, err := s.Open(s.dsn)
	if err != nil {
		return nil, err
	}
	return tamperedConn{c.(sqliteConn), s}, nil
}

// tamper returns a database on a file, through a tampering that replaces pairs of texts.
func tamper(tb testing.TB, dsn string, pairs ...string) (*tampering, *sql.DB) {
	tb.Helper()
	s := &tampering{Driver: new(sqlite.Driver), dsn: dsn, replace: strings.NewReplacer(pairs...)}
	db := sql.OpenDB(connector{s})
	tb.Cleanup(func() { db.Close() })
	return s, db
}

type connector struct{ *tampering }

func (c connector) Driver() driver.Driver { return c.tampering.Driver }

// note counts a statement by its first word.
func (s *tampering) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed = append(s.executed, strings.Fields(text)[0])
}

// taken returns what was executed since the last call.
func (s *tampering) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.executed, " ")
	s.executed = nil
	return all
}

type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type tamperedConn struct {
	sqliteConn
	s *tampering
}

func (c tamperedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.sqliteConn.PrepareContext(ctx, c.s.replace.Replace(text))
	if err != nil {
		return nil, err
	}
	return tamperedStmt{stmt.(sqliteStmt), c.s, text}, nil
}

func (c tamperedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.s.note("BEGIN")
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	return tamperedTx{tx, c.s}, err
}

func (c tamperedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.s.note(text)
	return c.sqliteConn.ExecContext(ctx, c.s.replace.Replace(text), args)
}

func (c tamperedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.s.note(text)
	return c.sqliteConn.QueryContext(ctx, c.s.replace.Replace(text), args)
}

type tamperedTx struct {
	driver.Tx
	s *tampering
}

func (tx tamperedTx) Commit() error {
	tx.s.note("COMMIT")
	return tx.Tx.Commit()
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type tamperedStmt struct {
	sqliteStmt
	s    *tampering
	text string
}

func (t tamperedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	t.s.note(t.text)
	return t.sqliteStmt.ExecContext(ctx, args)
}

func (t tamperedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	t.s.note(t.text)
	return t.sqliteStmt.QueryContext(ctx, args)
}

// If a statement of the store loses what it rests on, the suite notices.
func TestConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		pairs  []string
	}{
		"the last one stays": {"post-second", []string{
			"DO NOTHING", "DO UPDATE SET posted_by = excluded.posted_by, data = excluded.data",
		}},
		"By in any case":             {"post-by", []string{"SELECT posted_by FROM", "SELECT CASE WHEN posted_by = 'ada' THEN 'Ada' END FROM"}},
		"order is by id":             {"items-order", []string{"INDEXED BY holdfast_inbox_order", "", "ORDER BY at, id", "ORDER BY id"}},
		"order is by time":           {"items-sessions", []string{"ORDER BY session, at, id", "ORDER BY at, id"}},
		"a list of one session":      {"items-sessions-many", []string{"(session, at, id) > (?3, ?4, ?5)", "session > ?3 AND ?4 IS NOT NULL AND ?5 IS NOT NULL"}},
		"Remove of a kind takes all": {"remove-kind", []string{"session = ?2 AND kind = ?3", "session = ?2 AND ?3 IS NOT NULL"}},
		"Remove takes patterns":      {"remove-literally", []string{"AND id = ?4", "AND id LIKE ?4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, db := tamper(t, testenv.SQLite(t), c.pairs...)
			plain := sqlitetest.Open(t, testenv.SQLite(t))
			convicted := func(db *sql.DB) bool {
				found := inboxtest.Violations(t.Context(), func() inbox.Store { return create(t, db, nil) }, c.clause)
				return found[c.clause] != nil
			}
			if convicted(plain) || !convicted(db) {
				t.Errorf("clause %s does not tell it from the store", c.clause)
			}
		})
	}
}

// An item is one transaction of one statement. If there is an item, nothing is written.
func TestStatements(t *testing.T) {
	s, db := tamper(t, testenv.SQLite(t))
	store := create(t, db, nil)
	post(t, store, item("s", "warm", "ada"))
	posted := func() error { _, err := store.Post(t.Context(), item("s", "q", "ada")); return err }
	for _, c := range []struct {
		name, want string
		call       func() error
	}{
		{"Post", "BEGIN INSERT COMMIT", posted},
		{"Post once more", "BEGIN INSERT SELECT COMMIT", posted},
		{"Items", "SELECT", func() error { return readAll(t.Context(), store, "s") }},
		{"Items of all", "SELECT", func() error { return readAll(t.Context(), store, "") }},
		{"Remove", "BEGIN DELETE DELETE COMMIT", func() error { return store.Remove(t.Context(), key("s"), inbox.Answer, "a", "b") }},
		{"Remove of a kind", "BEGIN DELETE COMMIT", func() error { return store.Remove(t.Context(), key("s"), inbox.Answer) }},
		{"Remove of all", "BEGIN DELETE COMMIT", func() error { return store.Remove(t.Context(), key("s"), "") }},
	} {
		s.taken()
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := s.taken(); got != c.want {
			t.Errorf("%s executes %s, want %s", c.name, got, c.want)
		}
	}
}
