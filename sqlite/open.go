package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"github.com/holdfast-go/holdfast/internal/sqlitefile"
)

// settings are those that the promises need, and IMMEDIATE, so that a transaction of the program waits for other
// writers when it begins.
const settings = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"

// patience is for how long Open waits for another process that opens the same new file.
const patience = 5 * time.Second

// Open opens the file, and makes it if it is missing, with the settings that the promises need. Its folder must exist.
// Other users of the machine cannot read a file that Open makes. The caller closes the result.
func Open(file string) (*sql.DB, error) {
	// A file that is there is not opened here: to close it would end the locks that this process has on it.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(file)
	db, err := sql.Open("sqlite", "file:"+escaped+settings)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(rand.N(20 * time.Millisecond)) {
		if err = db.PingContext(context.Background()); !sqlitefile.Busy(err) || time.Now().After(end) {
			break
		}
	}
	if err == nil {
		var tables int // a ping reads nothing
		err = db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables)
	}
	if err != nil {
		return nil, errors.Join(sqlitefile.Name(file, err), db.Close())
	}
	return db, nil
}
