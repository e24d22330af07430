package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// processState returns the letter that /proc shows for the state of a process. If there is no such process, it returns
// 0.
func processState(pid int) byte {
	state, _ := stat(pid)
	return state
}

// children returns the ids of the direct children of a process.
func children(pid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		if _, parent := stat(child); parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// stat returns the state of a process and its parent's id.
func stat(pid int) (state byte, parent int) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The command, in parentheses, may itself contain spaces and parentheses.
	line = line[bytes.LastIndexByte(line, ')')+1:]
	fmt.Sscanf(string(line), " %c %d", &state, &parent) //nolint:errcheck // state and parent stay zero
	return state, parent
}

// mountTmpfs mounts a tmpfs of mb MiB on dir, owned by uid and gid.
func mountTmpfs(dir string, mb, uid, gid int) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700,uid=%d,gid=%d", mb, uid, gid))
	if err != nil {
		return fmt.Errorf("%w: mounting a tmpfs: %w", errUnavailable, err)
	}
	return nil
}

// mountReadOnly lays a read-only view of a file or directory over it.
func mountReadOnly(path string) error {
	if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("%w: mounting: %w", errUnavailable, err)
	}
	if err := syscall.Mount("", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("%w: mounting read-only: %w", errUnavailable, err), unmount(path))
	}
	return nil
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
