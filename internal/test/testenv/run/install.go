//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A need is a file that the tests need.
type need struct {
	name  string
	files string // pattern of the places outside of PATH where it may be
	pkg   string // the Debian package that has it
	why   string
}

var needs = []need{
	{"postgres", "/usr/lib/postgresql/*/bin/postgres", "postgresql", "tests of the PostgreSQL stores start servers"},
	{"redis-server", "/usr/sbin/redis-server", "redis-server", "tests of the Redis stores start servers"},
	{"pgbouncer", "/usr/sbin/pgbouncer", "pgbouncer", "the PostgreSQL stores are tested behind a pooler"},
	{"gcc", "/usr/bin/gcc", "gcc", "the race detector and the slow disk of make bench are built with it"},
	{
		"chromium-headless-shell", "/usr/bin/chromium-headless-shell", "chromium-headless-shell",
		"the page of examples/refundbot is tested in a browser",
	},
	{"nginx", "/usr/sbin/nginx", "nginx", "make clients restarts services behind a proxy that others use"},
	{"prometheus", "/usr/bin/prometheus", "prometheus", "the rules and panels of docs are shown to a Prometheus"},
	{"npm", "/usr/bin/npm", "npm", "npm fetches what tests run in browsers and Node: clients, and axe-core"},
}

// headers are a need on Debian, which does not pack them with gcc.
var headers = need{"stdlib.h", "/usr/include/stdlib.h", "libc6-dev", "gcc builds nothing without these headers"}

// missing returns the needs that this machine does not have.
func missing() (list []need) {
	all := needs
	if runtime.GOOS == "linux" {
		all = append(all[:len(all):len(all)], headers)
	}
	for _, n := range all {
		found, _ := filepath.Glob(n.files)
		if _, err := exec.LookPath(n.name); err != nil && len(found) == 0 {
			list = append(list, n)
		}
	}
	return list
}

// checkSetup returns an error if something is missing.
func checkSetup(missing []need) error {
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, n := range missing {
		names = append(names, n.name)
	}
	return fmt.Errorf("this machine lacks %s: run make setup", strings.Join(names, ", "))
}

// setup prints what is missing and why, and calls install with the packages. If canInstall returns an error, setup
// prints the command that installs them instead, and fails.
func setup(out io.Writer, missing []need, canInstall func() error, install func(packages []string) error) error {
	if len(missing) == 0 {
		fmt.Fprintln(out, "setup: no program is missing")
		return nil
	}
	var packages []string
	for _, n := range missing {
		packages = append(packages, n.pkg)
		fmt.Fprintf(out, "setup: %s is missing (package %s): %s\n", n.name, n.pkg, n.why)
	}
	if err := canInstall(); err != nil {
		fmt.Fprintf(out, "setup: as root on Debian, run\n\n\tapt-get install --no-install-recommends %s\n\n"+
			"and elsewhere install the same programs and put them into PATH\n", strings.Join(packages, " "))
		return err
	}
	fmt.Fprintln(out, "setup: installing", strings.Join(packages, " "))
	return install(packages)
}

// fetch calls get unless the packages of npm are there. It does not need root.
func fetch(out io.Writer, missing func() (bool, error), get func() error) error {
	gone, err := missing()
	if err != nil || !gone {
		return err
	}
	fmt.Fprintln(out, "setup: packages of npm are missing: tests run clients that others wrote; fetching them")
	return get()
}

// canInstall returns an error unless this process may install packages.
func canInstall() error {
	if os.Getuid() != 0 {
		return errors.New("only root can install packages")
	}
	_, err := exec.LookPath("apt-get")
	return err
}

// install installs Debian packages. It starts none of their services.
func install(packages []string) error {
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
