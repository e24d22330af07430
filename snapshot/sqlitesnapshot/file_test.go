package sqlitesnapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/sqlitesnapshot"
)

// A database whose file was removed or replaced answers nothing, until the file is back.
func TestFileGone(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"removed": func(*testing.T, string) {},
		"replaced": func(t *testing.T, path string) {
			other := create(t, open(t, "file:"+path+"?"+busy+"&"+wal+"&"+full), nil)
			for method, err := range callAll(t.Context(), other) {
				if err != nil {
					t.Fatal(method, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			s := create(t, open(t, "file:"+path+"?"+busy+"&"+wal+"&"+full), nil)
			begin(t, s, "a")
			aside := path + ".aside"
			for _, move := range []string{"", "-wal", "-shm"} {
				want(t, os.Rename(path+move, aside+move), nil)
			}
			spoil(t, path)
			for method, err := range callAll(t.Context(), s) {
				if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), path+" was "+name) {
					t.Errorf("%s: %v, want %v that names the file", method, err, snapshot.ErrDamaged)
				}
			}
			for _, move := range []string{"", "-wal", "-shm"} {
				_ = os.Remove(path + move)
				want(t, os.Rename(aside+move, path+move), nil)
			}
			for method, err := range callAll(t.Context(), s) {
				if err != nil && strings.Contains(err.Error(), "file") {
					t.Errorf("%s after the file is back: %v", method, err)
				}
			}
		})
	}
}

// If a process may not write, the error tells which file or directory.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	create(t, open(t, "file:"+path+"?"+busy+"&"+wal+"&"+full), nil)
	db := open(t, "file:"+path+"?mode=ro&"+busy+"&_pragma=synchronous(FULL)")
	s := sqlitesnapshot.New(db, nil)
	writes := 0
	for method, err := range callAll(t.Context(), s) {
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

// A database on a read-only mount is refused, with its path and the reason, also if no connection can be opened.
func TestReadOnlyMount(t *testing.T) {
	for name, dsn := range map[string]string{
		"as it should be": "?" + busy + "&" + wal + "&" + full,
		"mode=ro":         "?mode=ro&" + busy + "&_pragma=synchronous(FULL)",
	} {
		for what, mounted := range map[string]func(path string) string{
			"directory": filepath.Dir,
			"file":      func(path string) string { return path },
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "test.db")
				db := open(t, "file:"+path+"?"+busy+"&"+wal+"&"+full)
				create(t, db, nil)
				want(t, db.Close(), nil)
				testenv.MountReadOnly(t, mounted(path))
				s := sqlitesnapshot.New(open(t, "file:"+path+dsn), nil)
				refused := 0
				for method, err := range callAll(t.Context(), s) {
					if err == nil && what == "file" {
						continue // reading may work
					}
					refused++
					if !errors.Is(err, snapshot.ErrRefused) || !errors.Is(err, syscall.EROFS) ||
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
