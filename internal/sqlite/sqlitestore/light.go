package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
)

// WriteLightly runs f on a connection whose commits do not wait for the disk. A power failure may undo them, and undoes
// no other commit: a checkpoint still waits. Afterwards the connection is as its owner has opened it, or closed.
func (d *DB) WriteLightly(ctx context.Context, f func(*sql.Conn) error) (err error) {
	conn, leave, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var synchronous int
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	defer func() {
		if !synchronize(context.WithoutCancel(ctx), conn, synchronous) {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection
		}
	}()
	const normal = 1
	if !synchronize(ctx, conn, normal) {
		return fmt.Errorf("PRAGMA synchronous = %d has no effect", normal)
	}
	return f(conn)
}

// WriteTxLightly is Write with a commit that does not wait for the disk: see WriteLightly.
func (d *DB) WriteTxLightly(ctx context.Context, f func(*sql.Tx) error) error {
	return d.WriteLightly(ctx, func(conn *sql.Conn) error { return d.transact(ctx, conn, f) })
}

// synchronize sets PRAGMA synchronous, and reports whether it is set.
func synchronize(ctx context.Context, conn *sql.Conn, to int) bool {
	var is int
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA synchronous = %d", to))
	return err == nil && conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&is) == nil && is == to
}
