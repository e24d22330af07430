//go:build unix

package testenv

import "syscall"

// canServe reports whether this system has the signals with which tests stop and end servers.
const canServe = true

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

func kill(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }

// ownGroup makes a child the first of its own process group.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setpgid = true }

func asUser(uid, gid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
