package sqlitecheckpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/sqlitecheckpoint"
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
			want(t, claim(t, s), nil)
			aside := path + ".aside"
			for _, move := range []string{"", "-wal", "-shm"} {
				want(t, os.Rename(path+move, aside+move), nil)
			}
			spoil(t, path)
			for method, err := range callAll(t.Context(), s) {
				if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), path+" was "+name) {
					t.Errorf("%s: %v, want %v that names the file", method, err, checkpoint.ErrDamaged)
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

// Who may not write is told where.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	create(t, open(t, "file:"+path+"?"+busy+"&"+wal+"&"+full), nil)
	db := open(t, "file:"+path+"?mode=ro&"+busy+"&_pragma=synchronous(FULL)")
	s := sqlitecheckpoint.New(db, nil)
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
