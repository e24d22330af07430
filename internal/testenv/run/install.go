package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// install installs the Debian packages of the missing programs. It starts none of their services.
func install() error {
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("only root can install %v", packages)
	}
	for name, content := range map[string]string{
		"/usr/sbin/policy-rc.d":                                "#!/bin/sh\nexit 101\n", // no service starts
		"/etc/postgresql-common/createcluster.d/holdfast.conf": "create_main_cluster = false\n",
	} {
		remove, err := writeNew(name, content)
		if err != nil {
			return err
		}
		defer remove()
	}
	if err := apt("update"); err != nil {
		return err
	}
	return apt(append([]string{"install", "--yes", "--no-install-recommends"}, packages...)...)
}

// missing returns the packages that this machine needs. The race detector needs
// the C compiler.
func missing() []string {
	var packages []string
	for _, p := range []struct{ program, dirs, packages string }{
		{"postgres", "/usr/lib/postgresql/*/bin", "postgresql"},
		{"redis-server", "/usr/sbin", "redis-server"},
		{"pgbouncer", "/usr/sbin", "pgbouncer"},
		{"gcc", "/usr/bin", "gcc"},
	} {
		found, _ := filepath.Glob(filepath.Join(p.dirs, p.program))
		if _, err := exec.LookPath(p.program); err != nil && len(found) == 0 {
			packages = append(packages, p.packages)
		}
	}
	if _, err := os.Stat("/usr/include/stdlib.h"); errors.Is(err, fs.ErrNotExist) {
		packages = append(packages, "libc6-dev")
	}
	return packages
}

// writeNew writes an executable file, unless the file exists. remove undoes that.
func writeNew(name, content string) (remove func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		return nil, err
	}
	return func() { os.Remove(name) }, nil //nolint:errcheck // a package may have taken it over
}

func apt(args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %v: %w", args, err)
	}
	return nil
}
