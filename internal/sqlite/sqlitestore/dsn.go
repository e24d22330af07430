package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/sqlitefile"
)

// ErrDSN refuses a database that would lose acknowledged writes, fail where it should wait, or sort differently. The
// message says what is wrong and shows the data source name to write.
var ErrDSN = errors.New("database is not opened as it must be")

const remedyDSN = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// minBusyTimeout is in ms. Other processes write too, and each of their commits waits for the disk.
const minBusyTimeout = 1000

// The values of PRAGMA synchronous that flush every commit.
const (
	synchronousFull  = 2
	synchronousExtra = 3
)

// checkDSN asks a connection how the caller opened the database. All connections are opened the same way.
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
		{"PRAGMA journal_mode", &journal},
		{"PRAGMA encoding", &encoding},
		{"PRAGMA synchronous", &synchronous},
		{"PRAGMA busy_timeout", &timeout},
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
		return unfit(sqlitefile.Opened(ctx, conn), strings.Join(faults, ", "))
	}
	return nil
}

// unfit returns an ErrDSN that names the file, if there is one.
func unfit(path, faults string) error {
	const open = "with modernc.org/sqlite, open"
	if path == "" {
		return fmt.Errorf("%w: %s: %s a file as %q", ErrDSN, faults, open, "file:PATH?"+remedyDSN)
	}
	return fmt.Errorf("%w: %s: %s: %s it as %q", ErrDSN, path, faults, open, "file:"+path+"?"+remedyDSN)
}

// checkSQLite asks for the version of SQLite. If another kind of database answers, checkSQLite returns ErrDSN. If no
// database answers, it returns the error as it is.
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
