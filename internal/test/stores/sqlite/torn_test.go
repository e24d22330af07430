package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If SQLite itself cannot read a document, what it belongs to is damaged. All else can be read, and written.
func TestTorn(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		if c.torn.write == nil {
			t.Skip("a stream is gone if it is damaged")
		}
		path := sqlitetest.File(t)
		c.torn.check(t, c.tear(t, path, c.torn.n, c.torn.at), c.torn, path)
	})
}

// tear writes n things into a file, and tears the document of one of them. It returns a store on what is left.
func (c contract) tear(t *testing.T, path string, n, at int) store {
	t.Helper()
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("document %02d ", i), 1200) }
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	s := c.create(t, db, options{})
	for i := range n {
		if err := c.torn.write(t.Context(), s, i, text(i)); err != nil {
			t.Fatal(err)
		}
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(at)[:22])
	return c.open(sqlitetest.Open(t, dsn), options{})
}
