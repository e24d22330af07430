package sqlitetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"
)

// A Tampering stands between database/sql and SQLite. It notes what is executed, and replaces parts of statements.
type Tampering struct {
	driver.Driver
	dsn     string
	replace *strings.Replacer

	mu       sync.Mutex // protects following fields
	executed []string
	prepared []string
}

// Tamper opens a database on a file until the test ends, through a Tampering that replaces pairs of texts.
func Tamper(tb testing.TB, dsn string, pairs ...string) (*Tampering, *sql.DB) {
	tb.Helper()
	s := &Tampering{Driver: new(sqlite.Driver), dsn: dsn, replace: strings.NewReplacer(pairs...)}
	db := sql.OpenDB(connector{s})
	tb.Cleanup(func() { db.Close() })
	return s, db
}

// Executed returns the statements that were executed since the last call.
func (s *Tampering) Executed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.executed
	s.executed = nil
	return all
}

// Words returns what was executed since the last call, as the first words of the statements.
func (s *Tampering) Words() string {
	var words []string
	for _, text := range s.Executed() {
		words = append(words, strings.Fields(text)[0])
	}
	return strings.Join(words, " ")
}

// Prepared returns the statements that were prepared, each once.
func (s *Tampering) Prepared() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prepared
}

func (s *Tampering) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed = append(s.executed, text)
}

type connector struct{ *Tampering }

func (c connector) Driver() driver.Driver { return c.Tampering.Driver }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return tamperedConn{conn.(sqliteConn), c.Tampering}, nil
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
	s *Tampering
}

func (c tamperedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	c.s.mu.Lock()
	if !slices.Contains(c.s.prepared, text) {
		c.s.prepared = append(c.s.prepared, text)
	}
	c.s.mu.Unlock()
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
	s *Tampering
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
	s    *Tampering
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
