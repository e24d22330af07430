package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
)

// A light write leaves no connection behind whose commits do not wait for the disk, however it ends.
func TestWriteLightly(t *testing.T) {
	d, db := notes(t)
	db.SetMaxOpenConns(1)
	synchronous := func(q interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	},
	) (is int) {
		if err := q.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&is); err != nil {
			t.Error(err)
		}
		return is
	}
	for name, end := range map[string]func(cancel func()) error{
		"it ends":     func(func()) error { return nil },
		"it fails":    func(func()) error { return errOther },
		"its ctx end": func(cancel func()) error { cancel(); return nil },
		"it panics":   func(func()) error { panic("x") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := synchronous(db)
			var err error
			func() {
				defer func() { _ = recover() }()
				err = d.WriteLightly(ctx, func(conn *sql.Conn) error {
					if is := synchronous(conn); is != 1 {
						t.Errorf("synchronous is %d", is)
					}
					if _, err := conn.ExecContext(ctx, d.SQL(insertSQL), name); err != nil {
						return err
					}
					return end(cancel)
				})
			}()
			if after := synchronous(db); after != before || before != 2 {
				t.Errorf("synchronous was %d, and is %d", before, after)
			}
			if (name == "it fails") != errors.Is(err, errOther) {
				t.Error(err)
			}
			var n int
			err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM my_notes WHERE text = ?1", name).Scan(&n)
			if err != nil || n != 1 {
				t.Errorf("%d notes, %v", n, err)
			}
		})
	}
	if err := d.WriteLightly(stopped(t), nil); !errors.Is(err, context.Canceled) && !errors.Is(err, errStopped) {
		t.Error(err) // Start has looked at ctx before, and names its cause
	}
}
