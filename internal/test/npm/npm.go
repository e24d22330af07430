// Package npm has the packages of npm that tests run: clients that others wrote, and axe-core. package.json names their
// versions, and package-lock.json the sums by which npm checks them.
//
// make setup fetches them into the user's cache. If they are not there, a test that asks for them is skipped and says
// why. If HOLDFAST_TEST_REQUIRED is 1, as under make test, the test fails.
//
// Only test files, package browser and the command internal/test/testenv/run import this package.
package npm

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lockfile []byte
)

// dir returns the directory of the user's cache for these versions.
func dir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	sum := sha256.Sum256(lockfile)
	return filepath.Join(cache, "holdfast", "npm-"+hex.EncodeToString(sum[:6])), nil
}

// complete is a file that npm writes when all packages are there.
func complete(dir string) string { return filepath.Join(dir, "node_modules", ".package-lock.json") }

// Missing reports whether the packages are not in the user's cache.
func Missing() (bool, error) {
	at, err := dir()
	if err != nil {
		return false, err
	}
	_, err = os.Stat(complete(at))
	return err != nil, nil
}

// Fetch fetches the packages into the user's cache.
func Fetch() error {
	at, err := dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lockfile} {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir, cmd.Stdout, cmd.Stderr = at, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	return nil
}

// Dir returns the directory with the node_modules of package.json.
func Dir(tb testing.TB) string {
	tb.Helper()
	at, err := dir()
	if err != nil {
		tb.Fatal("npm:", err)
	}
	if _, err := os.Stat(complete(at)); err != nil {
		missing(tb, "the test needs packages of npm: run make setup")
	}
	return at
}

// Node returns a command that runs a script of Node. The first argument of the script is Dir, and args follow. The
// process ends when the test does.
func Node(tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	at := Dir(tb)
	node, err := exec.LookPath("node")
	if err != nil {
		missing(tb, "the test needs node: run make setup")
	}
	cmd := exec.CommandContext(tb.Context(), node, append([]string{script, at}, args...)...) //nolint:gosec // a test's
	cmd.Stderr = os.Stderr
	return cmd
}

// missing skips the test. If the test is required, missing fails it.
func missing(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("HOLDFAST_TEST_REQUIRED") == "1" {
		tb.Fatal("npm:", reason)
	}
	tb.Skip("npm:", reason)
}
