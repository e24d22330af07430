package testenv

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// owner returns the user and group that run the servers. PostgreSQL refuses to run as root, so root runs the servers as
// the user postgres. Any other user runs them itself.
func owner() (uid, gid int) {
	ids := postgresUser()
	return ids[0], ids[1]
}

var postgresUser = sync.OnceValue(func() [2]int {
	ids := [2]int{os.Getuid(), os.Getgid()}
	if ids[0] != 0 {
		return ids
	}
	if u, err := user.Lookup("postgres"); err == nil {
		ids[0], _ = strconv.Atoi(u.Uid)
		ids[1], _ = strconv.Atoi(u.Gid)
	}
	return ids
})

// asOwner makes cmd run as the owner of the servers.
func asOwner(cmd *exec.Cmd) *exec.Cmd {
	if uid, gid := owner(); uid != os.Getuid() {
		cmd.SysProcAttr = asUser(uid, gid)
	}
	return cmd
}

func chown(name string) error {
	uid, gid := owner()
	return os.Chown(name, uid, gid)
}

// binary finds a program in PATH or in the directories that match dirs, the newest directory first.
func binary(name, dirs string) (string, error) {
	if !canServe {
		return "", fmt.Errorf("%w: servers need the signals of Unix", errUnavailable)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob(filepath.Join(dirs, name))
	if len(found) == 0 {
		return "", fmt.Errorf("%w: no %s in PATH or %s: run make setup", errUnavailable, name, dirs)
	}
	return slices.MaxFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) // 9 before 15
	}), nil
}
