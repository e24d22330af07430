package sqlitecheckpoint

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// ErrDSN refuses a database that would lose what it acknowledged, fail where it should wait, or sort differently.
// The message says what is wrong and shows the data source name to write.
var ErrDSN = errors.New("database is not opened as it must be")

const remedyDSN = "file:PATH?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// minBusyTimeout is in ms. Other processes write too, and each of their commits waits for the disk.
const minBusyTimeout = 1000

// The values of PRAGMA synchronous that flush every commit.
const (
	synchronousFull  = 2
	synchronousExtra = 3
)

// checkDSN asks a connection how the caller opened it. The others are opened the same way.
func checkDSN(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := checkSQLite(ctx, conn); err != nil {
		return err
	}
	var journal, encoding string
	var synchronous, timeout int
	for _, p := range []struct {
		query string
		to    any
	}{
		{"PRAGMA journal_mode", &journal}, {"PRAGMA encoding", &encoding},
		{"PRAGMA synchronous", &synchronous}, {"PRAGMA busy_timeout", &timeout},
	} {
		if err := conn.QueryRowContext(ctx, p.query).Scan(p.to); err != nil {
			return err
		}
	}
	var faults []string
	if journal != "wal" {
		faults = append(faults, "journal_mode is "+journal)
	}
	if synchronous != synchronousFull && synchronous != synchronousExtra {
		faults = append(faults, fmt.Sprintf("synchronous is %d", synchronous))
	}
	if timeout < minBusyTimeout {
		faults = append(faults, fmt.Sprintf("busy_timeout is %d", timeout))
	}
	if encoding != "UTF-8" {
		faults = append(faults, "encoding is "+encoding+", for the life of the file")
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s: with modernc.org/sqlite, open a file as %q", ErrDSN, strings.Join(faults, ", "), remedyDSN)
	}
	return nil
}

// checkSQLite tells another database, which answers but not to this, from one that does not answer.
func checkSQLite(ctx context.Context, conn *sql.Conn) error {
	var version string
	err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	if err == nil {
		return nil
	}
	var one int
	if conn.QueryRowContext(ctx, "SELECT 1").Scan(&one) == nil {
		return fmt.Errorf("%w: it is not SQLite: %w", ErrDSN, err)
	}
	return err
}

var allSQL = []string{
	takeSQL, waitSQL, createSQL, renewSQL, fenceSQL, settleSQL, insertSQL, pruneSQL, refusalSQL, markSQL, deleteHeadSQL, deleteTurnsSQL,
	turnsSQL, answeredSQL, sessionsSQL, owingSQL, idleSQL, retireSQL,
}

// statements are keyed by their templates.
type statements map[string]*sql.Stmt

func (st statements) close() {
	for _, stmt := range st {
		stmt.Close()
	}
}

func (s *Store) prepare(ctx context.Context) (statements, error) {
	st := make(statements, len(allSQL))
	for _, text := range allSQL {
		stmt, err := s.db.PrepareContext(ctx, s.sql(text))
		if err != nil {
			st.close()
			return nil, err
		}
		st[text] = stmt
	}
	return st, nil
}

// start begins every method: it returns the first reason not to go on, or the statements.
func (s *Store) start(ctx context.Context, errs ...error) (statements, error) {
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if st := s.prepared.Load(); st != nil {
		return *st, nil
	}
	if err := checkDSN(ctx, s.db); err != nil {
		return nil, err
	}
	st, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if !s.prepared.CompareAndSwap(nil, &st) {
		st.close()
	}
	return *s.prepared.Load(), nil
}

// enter waits until no other goroutine of this store writes. SQLite has one writer at a time and makes the others
// poll; here they queue.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.writer <- struct{}{}:
		return func() { <-s.writer }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// write runs f in a transaction that ends when f does: ctx bounds the wait for a connection, and what f gives it to.
// The first statement of f must write: a read would fix what the transaction sees before it has the write lock.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// collect returns the rows up to the first that cannot be read.
func collect[T any](rows *sql.Rows, err error, read func(*sql.Rows) (T, error)) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := read(rows)
		if err != nil {
			return all, cmp.Or(rows.Err(), err)
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

var verdicts = []error{lock.ErrHeld, lock.ErrFenced, checkpoint.ErrConflict, checkpoint.ErrInvalid, ErrDSN}

// explain gives an error of the database the meaning that the contract has for it. No connection may be held.
func (s *Store) explain(ctx context.Context, err error) error {
	if slices.ContainsFunc(verdicts, func(v error) bool { return errors.Is(err, v) }) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if missing := s.missing(ctx); missing != "" {
		return fmt.Errorf("%w: %s is missing: run migrations.Up, or execute what Schema returns", checkpoint.ErrSchema, missing)
	}
	return err
}

// missing names a table or column that the store needs and does not find.
func (s *Store) missing(ctx context.Context) string {
	for _, t := range tables {
		table := s.sql(t.name)
		rows, err := s.db.QueryContext(ctx, "SELECT name FROM pragma_table_info(?1)", table)
		found, err := collect(rows, err, scanText)
		switch {
		case err != nil:
			return ""
		case len(found) == 0:
			return "table " + table
		}
		for _, column := range strings.Fields(t.columns) {
			if !slices.Contains(found, column) {
				return fmt.Sprintf("column %s of table %s", column, table)
			}
		}
	}
	return ""
}

func scanText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}
