package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// What npm is to fetch, and the sums by which it checks that.
var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lockfile []byte
)

var axeVersion = regexp.MustCompile(`"axe-core": "([^"]+)"`)

// axeDir returns the directory of the user's cache for the version of axe-core that package.json names.
func axeDir() (string, error) {
	version := axeVersion.FindSubmatch(manifest)
	if version == nil {
		return "", fmt.Errorf("package.json names no axe-core")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "holdfast", "axe-core-"+string(version[1])), nil
}

func axeFile(dir string) string { return filepath.Join(dir, "node_modules", "axe-core", "axe.min.js") }

// AxeMissing reports whether axe-core is not in the user's cache.
func AxeMissing() (bool, error) {
	dir, err := axeDir()
	if err != nil {
		return false, err
	}
	_, err = os.Stat(axeFile(dir))
	return err != nil, nil
}

// FetchAxe fetches axe-core with npm into the user's cache.
func FetchAxe() error {
	dir, err := axeDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lockfile} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	return nil
}

// A Finding is a fault of a page that keeps some people from using it.
type Finding struct {
	Rule, Impact, Help string
	Nodes              []string // selectors and what is wrong with each
}

// String returns the finding on a line for each node.
func (f Finding) String() string {
	return fmt.Sprintf("%s (%s): %s\n\t%s", f.Rule, f.Impact, f.Help, strings.Join(f.Nodes, "\n\t"))
}

// Axe returns what axe-core finds in the page as it is. If axe-core was not fetched, the test is skipped, or fails if
// it is required.
func (t *Tab) Axe() (findings []Finding) {
	t.tb.Helper()
	dir, err := axeDir()
	if err != nil {
		t.tb.Fatal("browser:", err)
	}
	script, err := os.ReadFile(axeFile(dir))
	if err != nil {
		missing(t.tb, "the test needs axe-core: run make setup")
	}
	// DevTools put it into the page, so that no policy of the page forbids it.
	t.Eval(string(script)+"; true", nil)
	var found json.RawMessage
	t.Eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({
		rule: v.id, impact: v.impact, help: v.help,
		nodes: v.nodes.map(n => n.target.join(" ") + ": " + n.failureSummary.replaceAll("\n", " ")),
	})))`, &found)
	if err := json.Unmarshal(found, &findings); err != nil {
		t.tb.Fatal("browser:", err)
	}
	return findings
}
