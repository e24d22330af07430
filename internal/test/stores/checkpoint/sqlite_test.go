package checkpoint_test

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// begin claims a session and gives it back.
func (s lite) begin(t *testing.T) error {
	t.Helper()
	c, err := s.Claim(t.Context(), key("a"), request())
	if err != nil {
		return err
	}
	return s.Mark(t.Context(), c.Lease, release)
}

func TestSQLiteDSNInMemory(t *testing.T) {
	db := sqlitetest.Open(t, ":memory:")
	db.SetMaxOpenConns(1)
	want(t, liteOn(t, db, sqlitecheckpoint.Options{}).begin(t), sqlitestore.ErrDSN)
}

func TestSQLiteDSNMended(t *testing.T) {
	settings := sqlitetest.Busy + "&" + sqlitetest.WAL + "&_pragma=synchronous(NORMAL)"
	db := sqlitetest.Open(t, "file:"+sqlitetest.File(t)+"?"+settings)
	db.SetMaxOpenConns(1)
	s := liteOn(t, db, sqlitecheckpoint.Options{})
	want(t, s.begin(t), sqlitestore.ErrDSN)
	sqlitetest.Exec(t, db, "PRAGMA synchronous = FULL")
	want(t, s.begin(t), nil)
}

// PostgreSQL understands SELECT 1, and no PRAGMA.
func TestSQLiteOther(t *testing.T) {
	db := must[*sql.DB](t)(sql.Open("pgx", testenv.PostgresURL(t)))
	defer db.Close()
	want(t, lite{Store: sqlitecheckpoint.New(db, nil)}.begin(t), sqlitestore.ErrDSN)
}

func TestSQLiteSchema(t *testing.T) {
	s := newLite(t, sqlitecheckpoint.Options{})
	if strings.Contains(strings.ToUpper(s.Schema()), "TRIGGER") {
		t.Error("Schema creates a trigger")
	}
	for _, statement := range strings.SplitAfter(s.Schema(), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" && !strings.HasSuffix(statement, ";") {
			t.Errorf("%q does not end by itself", statement)
		}
	}
}
