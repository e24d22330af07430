package main

import "syscall"

// dieWithParent lets the system kill a worker whose parent was killed, also a stopped one.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
