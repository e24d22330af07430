// Package sqlitestore holds the common parts of the stores on SQLite: the check how the database was opened, prepared
// statements, a queue for the writers of one store, and the meaning of the database's errors.
package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlname"
)

// A Layout describes the data of a store in its database. In all SQL, and in the names of tables, {prefix} stands for
// the prefix.
type Layout struct {
	// Schema creates what is missing, and changes nothing that is there.
	Schema string
	Tables []Table
	// Statements are the statements to prepare.
	Statements []string
}

// A Table names a table, the columns that this version of a store reads and writes, and the indexes that its statements
// name.
type Table struct{ Name, Columns, Indexes string }

// A DB is the database of one store.
type DB struct {
	db     *sql.DB
	prefix string
	layout Layout
	// prepared is nil until the database has been found fit.
	prepared atomic.Pointer[Statements]
	// file is nil until the database has been found fit, and if there is no file.
	file atomic.Pointer[file]
	// writer holds a token while a goroutine of this store writes.
	writer chan struct{}
}

// New returns the database of a store. It does not use db yet. New panics if the prefix is invalid. "" means
// "holdfast_".
func New(db *sql.DB, prefix string, l Layout) *DB {
	parsed, err := parse(prefix, l.Schema)
	if err != nil {
		panic("sqlite: " + err.Error())
	}
	return &DB{db: db, prefix: parsed, layout: l, writer: make(chan struct{}, 1)}
}

var suffix = regexp.MustCompile(`{prefix}(\w+)`)

// parse returns the prefix that an option asks for. The names in the database are those in schema.
func parse(option, schema string) (string, error) {
	var suffixes []string
	for _, found := range suffix.FindAllStringSubmatch(schema, -1) {
		suffixes = append(suffixes, found[1])
	}
	p, err := sqlname.Parse(option, suffixes...)
	switch {
	case err != nil:
		return "", err
	case p.Qualified():
		return "", fmt.Errorf("table prefix %q: SQLite has no schemas", option)
	case strings.HasPrefix(strings.ToLower(option), "sqlite_"):
		return "", fmt.Errorf("table prefix %q is reserved by SQLite", option)
	}
	return p.Plain(""), nil
}

// Beside reports whether both stores have the same *sql.DB.
func (d *DB) Beside(other *DB) bool { return d.db == other.db }

// SQL returns text with the prefix filled in.
func (d *DB) SQL(text string) string { return strings.ReplaceAll(text, "{prefix}", d.prefix) }

// Schema returns the statements that create what the store needs and is not there yet. They change nothing that is.
func (d *DB) Schema() string { return d.SQL(d.layout.Schema) }

// Statements are keyed by their texts in the layout.
type Statements map[string]*sql.Stmt

func (st Statements) close() {
	for _, stmt := range st {
		stmt.Close()
	}
}

func (d *DB) prepare(ctx context.Context) (Statements, error) {
	st := make(Statements, len(d.layout.Statements))
	for _, text := range d.layout.Statements {
		stmt, err := d.db.PrepareContext(ctx, d.SQL(text))
		if err != nil {
			st.close()
			return nil, err
		}
		st[text] = stmt
	}
	return st, nil
}

// Start begins every method. It returns the statements, or the first reason not to go on.
func (d *DB) Start(ctx context.Context, errs ...error) (Statements, error) {
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctxcause.Of(ctx)
	}
	if st := d.prepared.Load(); st != nil {
		return *st, d.There()
	}
	if err := checkDSN(ctx, d.db); err != nil {
		return nil, err
	}
	st, err := d.prepare(ctx)
	if err != nil {
		return nil, err
	}
	d.file.CompareAndSwap(nil, fileOf(ctx, d.db))
	if !d.prepared.CompareAndSwap(nil, &st) {
		st.close()
	}
	return *d.prepared.Load(), nil
}

// Enter waits until no other goroutine of this store writes. SQLite has one writer at a time and makes the others poll.
// Here they queue instead. Ask for a connection after Enter, never before.
func (d *DB) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.writer <- struct{}{}:
		return func() { <-d.writer }, nil
	case <-ctx.Done():
		return nil, ctxcause.Of(ctx)
	}
}

// connect returns a connection for a goroutine that is to write. Call leave when it has written.
func (d *DB) connect(ctx context.Context) (conn *sql.Conn, leave func(), err error) {
	next, err := d.Enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	if conn, err = d.db.Conn(ctx); err != nil {
		next()
		return nil, nil, err
	}
	return conn, func() {
		_ = conn.Close()
		next()
	}, nil
}

// Write runs f in a transaction that ends when f returns. ctx bounds the wait for a connection, and the statements that
// f gives it to. The first statement of f must write: a read would fix the data that the transaction sees before the
// transaction has the write lock.
func (d *DB) Write(ctx context.Context, f func(*sql.Tx) error) error {
	conn, leave, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.transact(ctx, conn, f)
}

func (d *DB) transact(ctx context.Context, conn *sql.Conn, f func(*sql.Tx) error) error {
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	// If the file is gone, the write is lost.
	return d.There()
}

// Collect returns the rows before the first row that cannot be read.
func Collect[T any](rows *sql.Rows, err error, read func(*sql.Rows) (T, error)) (all []T, _ error) {
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

// ScanText reads a row with one text.
func ScanText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}

// Affected returns how many rows a statement touched.
func Affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
