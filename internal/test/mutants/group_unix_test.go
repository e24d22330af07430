//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A test that is killed, or ends, may leave a process that has the mutant and never ends. It ends with the test.
func TestChildrenEnd(t *testing.T) {
	dir := t.TempDir()
	fifo, script := filepath.Join(dir, "fifo"), filepath.Join(dir, "test")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// As long as a child runs, it holds the FIFO open.
	text := "#!/bin/sh\nexec 3>" + fifo + "\nsleep 50 >/dev/null 2>&1 &\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		f, err := os.Open(fifo)
		if err == nil {
			defer f.Close()
			_, err = io.ReadAll(f)
		}
		ended <- err
	}()
	b := batch{program: &program{path: script, dir: dir}, names: []string{"Test"}}
	if v, out, err := b.run(t.Context(), 1, limits{least: time.Minute}); v != survived || err != nil {
		t.Fatalf("%q %s %v", v, out, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a child of the test is still at work")
	}
}

// The servers of a test may run as another user, with their files in the test's directory.
func TestFilesForAll(t *testing.T) {
	dir, err := tempDir(t.TempDir(), "files-")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
