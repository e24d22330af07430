package sqlitetest

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The files of a database, by what follows its path.
var files = []string{"", "-wal", "-shm"}

// TestFileGone shows that if the file of a database was removed or replaced, no call succeeds until the file is back.
// That concerns all sessions, so no error says that one of them is damaged.
func (k Kind[S]) TestFileGone(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"removed": func(*testing.T, string) {},
		"replaced": func(t *testing.T, path string) {
			k.wantAll(t, "of the other file", k.Create(t, Open(t, DSN(path))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := File(t)
			s := k.Create(t, Open(t, DSN(path)))
			k.wantAll(t, "at first", s)
			aside := path + ".aside"
			move(t, path, aside)
			spoil(t, path)
			for method, err := range k.CallAll(t.Context(), s) {
				if !errors.Is(err, k.Damaged) || !strings.Contains(err.Error(), path+" was "+name) {
					t.Errorf("%s: %v, want %v that names the file", method, err, k.Damaged)
				}
				if k.OneDamaged != nil && k.OneDamaged(err) {
					t.Errorf("%s says that one session is damaged: %v", method, err)
				}
			}
			for _, f := range files {
				_ = os.Remove(path + f)
			}
			move(t, aside, path)
			for method, err := range k.CallAll(t.Context(), s) {
				if err != nil && strings.Contains(err.Error(), "file") {
					t.Errorf("%s after the file is back: %v", method, err)
				}
			}
		})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	for _, f := range files {
		if err := os.Rename(from+f, to+f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadOnly shows that if the database is read-only, the error of a write names the file.
func (k Kind[S]) TestReadOnly(t *testing.T) {
	path := File(t)
	k.Create(t, Open(t, DSN(path)))
	s := k.New(Open(t, "file:"+path+"?mode=ro&"+Busy+"&"+Full), "")
	writes := 0
	for method, err := range k.CallAll(t.Context(), s) {
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
}

// TestNoTables shows that the first call on a database which is opened wrongly, or cannot be opened, names its path,
// although no tables were made yet. So does what was to make them.
func (k Kind[S]) TestNoTables(t *testing.T, up func(*sql.DB) error) {
	for name, c := range map[string]struct {
		place, settings string // of the file, in a directory
		opens           bool
	}{
		"no settings":             {"test.db", "", true},
		"no settings, plain path": {"test.db", "plain", true},
		"no such directory":       {"missing/test.db", "?" + Busy + "&" + WAL + "&" + Full, false},
		"path of a directory":     {"", "?" + Busy + "&" + WAL + "&" + Full, false},
		"not there, and mode=ro":  {"test.db", "?mode=ro&" + Busy + "&" + Full, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.place)
			dsn := "file:" + path + c.settings
			if c.settings == "plain" {
				dsn = path
			}
			db := Open(t, dsn)
			errs := k.CallAll(t.Context(), k.New(db, ""))
			if !c.opens {
				errs["Up"] = up(db)
			}
			for what, err := range errs {
				if err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v, want an error that names %s", what, err, path)
				}
				if is := errors.Is(err, k.DSN); is != c.opens {
					t.Errorf("%s: %v: is %v: %v", what, err, k.DSN, is)
				}
			}
		})
	}
}

// TestReadOnlyMount shows that a database on a read-only mount is refused, with its path and the reason, even if no
// connection can be opened.
func (k Kind[S]) TestReadOnlyMount(t *testing.T) {
	for name, settings := range map[string]string{
		"as it should be": "?" + Busy + "&" + WAL + "&" + Full,
		"mode=ro":         "?mode=ro&" + Busy + "&" + Full,
	} {
		for what, mounted := range map[string]func(path string) string{
			"directory": filepath.Dir,
			"file":      func(path string) string { return path },
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				path := File(t)
				db := Open(t, DSN(path))
				k.Create(t, db)
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				testenv.MountReadOnly(t, mounted(path))
				s := k.New(Open(t, "file:"+path+settings), "")
				refused := 0
				for method, err := range k.CallAll(t.Context(), s) {
					if err == nil && what == "file" {
						continue // reading may work
					}
					refused++
					if !errors.Is(err, k.Refused) || !errors.Is(err, syscall.EROFS) ||
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
}
