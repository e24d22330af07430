//go:build unix

// Command run starts a PostgreSQL and a Redis and runs a command, such as go test ./..., which uses them. It tells the
// command by the environment variables that package testenv reads:
//
//	go run ./internal/test/testenv/run [-memory] -- command args…
//	go run ./internal/test/testenv/run -serve
//	go run ./internal/test/testenv/run -setup
//
// If a server is not available, the command's tests fail instead of being skipped. run exits with the command's code.
//
// With -serve there is no command: run prints the environment as shell exports and keeps the servers up until it is
// interrupted. With -memory, the servers and the command keep temporary files in memory, if the machine has enough of
// it. Then tests that commit thousands of times do not wait for a busy disk.
//
// With -setup, run starts nothing. It installs the programs that the tests need and that are missing, with apt-get, and
// prints which and why. Without root or apt-get, it prints what to install, and fails. Then it fetches the packages of
// package npm into the user's cache, if that lacks them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func main() {
	setUp := flag.Bool("setup", false, "install the missing programs with apt-get, and say what and why")
	serve := flag.Bool("serve", false, "print the environment and serve until interrupted")
	memory := flag.Bool("memory", false, "keep temporary files in "+shm+", if that has enough room")
	flag.Parse()
	tasks := 0
	for _, asked := range []bool{*serve, *setUp, flag.NArg() > 0} {
		if asked {
			tasks++
		}
	}
	if tasks != 1 {
		fmt.Fprintln(os.Stderr, "usage: run [-memory] -- command args… | run -serve | run -setup")
		os.Exit(2)
	}
	if *setUp {
		err := setup(os.Stdout, missing(), canInstall, install)
		if err == nil {
			err = fetch(os.Stdout, npm.Missing, npm.Fetch)
		}
		if err != nil {
			fatal(err)
		}
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !*serve {
		if err := checkSetup(missing()); err != nil {
			fatal(err)
		}
	}
	remove := func() error { return nil }
	if *memory {
		var err error
		if remove, err = useMemory(); err != nil {
			fatal(err)
		}
	}
	env, stop, err := testenv.Start()
	if err != nil {
		fatal(errors.Join(err, remove()))
	}
	code := 0
	if *serve {
		for _, v := range env {
			fmt.Printf("export '%s'\n", v)
		}
		<-signals
	} else {
		code, err = command(flag.Args(), append(env, "HOLDFAST_TEST_REQUIRED=1"), signals)
	}
	if err := errors.Join(err, stop(), remove()); err != nil {
		fatal(err)
	}
	os.Exit(code)
}

const (
	shm    = "/dev/shm" // Linux keeps its files in memory
	enough = 6 << 30
)

// useMemory puts temporary files into a directory in memory, for this process and its children. If there is too little
// memory, useMemory does nothing. The go command keeps its builds on disk.
func useMemory() (remove func() error, err error) {
	if room() < enough {
		return func() error { return nil }, nil
	}
	disk := os.TempDir()
	dir, err := os.MkdirTemp(shm, "holdfast-")
	if err != nil {
		return nil, err
	}
	// The servers may run as another user.
	err = errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir))
	if os.Getenv("GOTMPDIR") == "" {
		err = errors.Join(err, os.Setenv("GOTMPDIR", disk))
	}
	return func() error { return os.RemoveAll(dir) }, err
}

// room returns how many bytes are free for files in memory. If the machine has no such file system, room returns 0.
func room() uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(shm, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "run:", err)
	os.Exit(1)
}

// grace is how long a command may take to end after a signal.
const grace = 15 * time.Second

// command runs args in a process group of its own, passes signals on to the group and returns the exit code. When it
// returns, all processes of the group are gone.
func command(args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	group := -cmd.Process.Pid
	defer syscall.Kill(group, syscall.SIGKILL) //nolint:errcheck // mostly the group is gone

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var late <-chan time.Time
	for {
		select {
		case sig := <-signals:
			if err := syscall.Kill(group, sig.(syscall.Signal)); err != nil {
				return 0, err
			}
			late = time.After(grace)
		case <-late:
			syscall.Kill(group, syscall.SIGKILL) //nolint:errcheck // it may have ended just now
		case err := <-ended:
			return exitCode(err)
		}
	}
}

// exitCode returns the code for the outcome of a command, as a shell would.
func exitCode(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
