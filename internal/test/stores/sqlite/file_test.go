package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
)

// The files of a database, by what follows its path.
var files = []string{"", "-wal", "-shm"}

// If the file of a database was removed or replaced, no call succeeds until the file is back. That concerns all
// sessions, so no error says that one of them is damaged.
func TestFileGone(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		for name, spoil := range map[string]func(t *testing.T, path string){
			"removed": func(*testing.T, string) {},
			"replaced": func(t *testing.T, path string) {
				wantAll(t, "of the other file", k.create(t, sqlitetest.Open(t, sqlitetest.DSN(path)), options{}))
			},
		} {
			t.Run(name, func(t *testing.T) {
				path := sqlitetest.File(t)
				s := k.create(t, sqlitetest.Open(t, sqlitetest.DSN(path)), options{})
				wantAll(t, "at first", s)
				aside := path + ".aside"
				move(t, path, aside)
				spoil(t, path)
				for method, err := range s.all(t.Context()) {
					if !errors.Is(err, k.damaged) || !strings.Contains(err.Error(), path+" was "+name) {
						t.Errorf("%s: %v, want %v that names the file", method, err, k.damaged)
					}
					if k.one(err) {
						t.Errorf("%s says that one session is damaged: %v", method, err)
					}
				}
				for _, f := range files {
					_ = os.Remove(path + f)
				}
				move(t, aside, path)
				for method, err := range s.all(t.Context()) {
					if err != nil && strings.Contains(err.Error(), "file") {
						t.Errorf("%s after the file is back: %v", method, err)
					}
				}
			})
		}
	})
}

func move(t *testing.T, from, to string) {
	t.Helper()
	for _, f := range files {
		if err := os.Rename(from+f, to+f); err != nil {
			t.Fatal(err)
		}
	}
}

// If the database is read-only, the error of a write names the file.
func TestReadOnly(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		path := sqlitetest.File(t)
		k.create(t, sqlitetest.Open(t, sqlitetest.DSN(path)), options{})
		s := k.open(sqlitetest.Open(t, "file:"+path+"?mode=ro&"+busy+"&"+full), options{})
		writes := 0
		for method, err := range s.all(t.Context()) {
			if err == nil {
				continue
			}
			if writes++; !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want an error that names %s", method, err, path)
			}
		}
		if writes == 0 {
			t.Error("nothing is refused")
		}
	})
}

// The first call on a database which is opened wrongly, or cannot be opened, names its path, although no tables were
// made yet. So does what was to make them.
func TestNoTables(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		for name, c := range map[string]struct {
			place, settings string // of the file, in a directory
			opens           bool
		}{
			"no settings":             {"test.db", "", true},
			"no settings, plain path": {"test.db", "plain", true},
			"no such directory":       {"missing/test.db", "?" + busy + "&" + wal + "&" + full, false},
			"path of a directory":     {"", "?" + busy + "&" + wal + "&" + full, false},
			"not there, and mode=ro":  {"test.db", "?mode=ro&" + busy + "&" + full, false},
		} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), c.place)
				dsn := "file:" + path + c.settings
				if c.settings == "plain" {
					dsn = path
				}
				db := sqlitetest.Open(t, dsn)
				errs := k.open(db, options{}).all(t.Context())
				if !c.opens {
					errs["Up"] = migrations.Up(t.Context(), db, migrations.SQLite)
				}
				for what, err := range errs {
					if err == nil || !strings.Contains(err.Error(), path) {
						t.Errorf("%s: %v, want an error that names %s", what, err, path)
					}
					if is := errors.Is(err, sqlitestore.ErrDSN); is != c.opens {
						t.Errorf("%s: %v: is %v: %v", what, err, sqlitestore.ErrDSN, is)
					}
				}
			})
		}
	})
}

// A database on a read-only mount is refused, with its path and the reason, even if no connection can be opened.
func TestReadOnlyMount(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		for name, settings := range map[string]string{
			"as it should be": "?" + busy + "&" + wal + "&" + full,
			"mode=ro":         "?mode=ro&" + busy + "&" + full,
		} {
			for what, mounted := range map[string]func(path string) string{
				"directory": filepath.Dir,
				"file":      func(path string) string { return path },
			} {
				t.Run(what+" "+name, func(t *testing.T) {
					path := sqlitetest.File(t)
					db := sqlitetest.Open(t, sqlitetest.DSN(path))
					k.create(t, db, options{})
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
					testenv.MountReadOnly(t, mounted(path))
					refused := 0
					s := k.open(sqlitetest.Open(t, "file:"+path+settings), options{})
					for method, err := range s.all(t.Context()) {
						if err == nil && what == "file" {
							continue // reading may work
						}
						refused++
						if !errors.Is(err, k.refused) || !errors.Is(err, syscall.EROFS) ||
							!strings.Contains(err.Error(), path) {
							t.Errorf("%s: %v, want %v that names %s", method, err, syscall.EROFS, path)
						}
					}
					if refused == 0 {
						t.Error("nothing is refused")
					}
				})
			}
		}
	})
}
