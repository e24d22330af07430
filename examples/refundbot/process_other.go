//go:build !linux

package main

import "syscall"

// dieWithParent does nothing: a worker notices that its stdin is closed.
func dieWithParent() *syscall.SysProcAttr { return nil }
