package archtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The picture in docs/design.md is made from the imports.
func TestPicture(t *testing.T) {
	g := make(graph)
	for _, p := range packages(t) {
		if !strings.HasPrefix(relative(p), "examples") {
			g[relative(p)] = p.Imports
		}
	}
	const begins, ends = "<!-- made by TestPicture of internal/test/archtest -->\n", "<!-- end of the picture -->"
	_, has, _ := strings.Cut(text(t, "docs/design.md"), begins)
	has, _, found := strings.Cut(has, ends)
	if want := picture(g); !found || has != want {
		t.Errorf("the picture in docs/design.md is not that of the imports. Write there, between %q and %q:\n%s",
			strings.TrimSpace(begins), ends, want)
	}
}

// The files that docs/where.md names are there. A name without a folder is in the folder of the name before it.
func TestWhere(t *testing.T) {
	names := 0
	for line := range strings.Lines(text(t, "docs/where.md")) {
		dir := ""
		for _, m := range regexp.MustCompile("`([\\w./]+)`").FindAllStringSubmatch(line, -1) {
			name := m[1]
			switch {
			case strings.Contains(name, "/"):
				if dir = name; path.Ext(name) != "" {
					dir = path.Dir(name)
				}
			case path.Ext(name) == "" || dir == "" || strings.ToLower(name) != name:
				continue
			default:
				name = path.Join(dir, name)
			}
			names++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("docs/where.md names %s: %v", m[1], err)
			}
		}
	}
	if names < 50 {
		t.Errorf("docs/where.md names %d files", names)
	}
}

func TestPictureOfGraph(t *testing.T) {
	got := picture(graph{
		"agent":           {"fmt", module + "/turns", module + "/lock", module + "/internal/x"},
		"agent/agenttest": {module + "/lock"},
		"agent/page":      {module + "/agent"},
		"internal/x":      {module + "/inbox"},
		"turns":           {module + "/lock"},
		"inbox":           {module + "/lock"},
		"lock":            nil,
		"alone":           {"fmt"},
	})
	const want = "```mermaid\nflowchart TD\n" +
		"    agent --> inbox & turns\n" + // and lock by them; inbox by an internal package
		"    page[agent/page] --> agent\n" +
		"    alone\n" +
		"    inbox --> lock\n" +
		"    turns --> lock\n" +
		"```\n"
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// picture draws the public packages, suites aside, and what they import, also by internal packages. An arrow that other
// arrows imply is left out.
func picture(g graph) string {
	public := func(pkg string) bool {
		return !strings.HasSuffix(pkg, "test") && !slices.Contains(strings.Split(pkg, "/"), "internal")
	}
	below := make(map[string][]string) // the public packages that a package reaches, by which others it reaches them
	for pkg := range g {
		if public(pkg) {
			for _, e := range reach(g, pkg) {
				if to, ours := strings.CutPrefix(e.to, module+"/"); ours && public(to) {
					below[pkg] = append(below[pkg], to)
				}
			}
		}
	}
	implied := func(pkg, to string) bool {
		return slices.ContainsFunc(below[pkg], func(by string) bool { return slices.Contains(below[by], to) })
	}
	reached := make(map[string]bool)
	for _, all := range below {
		for _, to := range all {
			reached[to] = true
		}
	}
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if !public(pkg) || len(below[pkg]) == 0 && reached[pkg] {
			continue // it is drawn where an arrow ends
		}
		fmt.Fprintf(&b, "    %s", node(pkg, true))
		for i, to := range slices.DeleteFunc(slices.Sorted(slices.Values(below[pkg])), func(to string) bool {
			return implied(pkg, to)
		}) {
			b.WriteString([]string{" --> ", " & "}[min(i, 1)])
			b.WriteString(node(to, false))
		}
		b.WriteByte('\n')
	}
	b.WriteString("```\n")
	return b.String()
}

// node returns the name of a package in the picture. label says the whole path, once.
func node(pkg string, label bool) string {
	name := path.Base(pkg)
	if label && name != pkg {
		name += "[" + pkg + "]"
	}
	return name
}

// Each test that a page of docs or README.md names is there. Whole pages are read, so that no claim outlives its proof.
func TestPagesNameTests(t *testing.T) {
	there := make(map[string]bool)
	files, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	is := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	for name := range strings.Lines(string(files)) {
		for _, found := range is.FindAllStringSubmatch(text(t, strings.TrimSpace(name)), -1) {
			there[found[1]] = true
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 || len(there) < 1000 {
		t.Fatal(err, len(pages), len(there))
	}
	names := regexp.MustCompile("`(?:[a-z]+\\.)?((?:Test|Fuzz)[A-Z]\\w*)(…)?(?:/[^`]*)?`")
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range names.FindAllStringSubmatch(string(b), -1) {
			begins := func(name string) bool { return strings.HasPrefix(name, use[1]) }
			if !there[use[1]] && (use[2] == "" || !slices.ContainsFunc(slices.Collect(maps.Keys(there)), begins)) {
				t.Errorf("%s names %s, and there is no such test", filepath.Base(page), use[0])
			}
		}
	}
}
