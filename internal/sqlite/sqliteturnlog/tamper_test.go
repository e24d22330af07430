package sqliteturnlog_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
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

// If a statement of the log loses what it rests on, the suite notices.
func TestConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		pairs  []string
	}{
		"order is lost":                      {"restore-order", []string{"ORDER BY p.at, p.phase", "ORDER BY p.at % 7"}},
		"the first entry is what came first": {"turns-summary", []string{"first = min(first, excluded.first)", "first = first"}},
		"the number of the last entry":       {"turns-number", []string{"max(turn, excluded.turn)", "excluded.turn"}},
		"started is that of the first":       {"turns-anew", []string{"coalesce(max(started, excluded.started), started, excluded.started)", "coalesce(started, excluded.started)"}},
		"a list without ties":                {"turns-pages", []string{"(l.first, l.run) > (?1, ?2)", "l.first > ?1 AND ?2 IS NOT NULL"}},
		"Prune takes what is open":           {"prune-anew-settled", []string{"open = 0 AND coalesce(settled", "coalesce(settled"}},
		"Prune leaves the entries":           {"prune-anew", []string{"WHERE run IN (SELECT run FROM holdfast_logged WHERE run > ?1", "WHERE run IN (SELECT run FROM holdfast_logged WHERE 0 AND run > ?1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, db := tamper(t, testenv.SQLite(t), c.pairs...)
			plain := sqlitetest.Open(t, testenv.SQLite(t))
			convicted := func(db *sql.DB) bool {
				found := turnlogtest.Violations(t.Context(), func() turnlog.Log { return create(t, db, nil) }, c.clause)
				return found[c.clause] != nil
			}
			if convicted(plain) || !convicted(db) {
				t.Errorf("clause %s does not tell it from the log", c.clause)
			}
		})
	}
}

// An entry is one transaction of two statements. If the entry is known, nothing is written.
func TestStatements(t *testing.T) {
	s, db := tamper(t, testenv.SQLite(t))
	l := create(t, db, nil)
	record(t, l, entry("warm", turnlog.Started, 0))
	e := entry("run", turnlog.Started, 0)
	for _, c := range []struct {
		name, want string
		call       func() error
	}{
		{"Record", "BEGIN INSERT INSERT COMMIT", func() error { return l.Record(t.Context(), e) }},
		{"Record once more", "BEGIN INSERT SELECT", func() error { return l.Record(t.Context(), e) }},
		{"Restore", "SELECT", func() error { _, err := l.Restore(t.Context(), "run"); return err }},
		{"Turns", "SELECT", func() error { return readAll(t.Context(), l) }},
		{"Prune of nothing", "SELECT", func() error { _, err := l.Prune(t.Context(), at(0)); return err }},
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
