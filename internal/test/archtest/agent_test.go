package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each row of the session model in docs/agent.md names tests that exist. A clause of agenttest has the numbers of the
// rows that name it, and no others.
func TestAgentRows(t *testing.T) {
	rows := agentRows(t)
	for n := 1; n <= 73; n++ {
		if tests, ok := rows[fmt.Sprint("H", n)]; !ok || tests == "" {
			t.Errorf("docs/agent.md has no row H%d", n)
		}
	}
	clauses := make(map[string][]string)
	for row, tests := range rows {
		for _, use := range regexp.MustCompile("`([^`]+)`(?: of `([a-z]+test)`)?").FindAllStringSubmatch(tests, -1) {
			name, suite := use[1], use[2]
			if strings.HasSuffix(name, "test") && !strings.Contains(name, "-") {
				continue
			}
			if strings.ToLower(name) != name || suite != "" {
				if !shows(t, name, suite) {
					t.Errorf("row %s names %s, and there is no such test", row, use[0])
				}
				continue
			}
			clauses[name] = append(clauses[name], row)
		}
	}
	defined := regexp.MustCompile(`\n\t\{"([a-z-]+)", "([H\d ]*)", \w+\},`)
	all := defined.FindAllStringSubmatch(text(t, "internal/test/agenttest/suite.go"), -1)
	if len(all) < 30 {
		t.Errorf("agenttest has %d clauses", len(all))
	}
	for _, c := range all {
		want := strings.Fields(c[2])
		got := slices.DeleteFunc(clauses[c[1]], func(row string) bool { return !strings.HasPrefix(row, "H") })
		if slices.Sort(got); !slices.Equal(slices.Sorted(slices.Values(want)), got) {
			t.Errorf("clause %s is of the rows %q, and docs/agent.md names it for %q", c[1], want, got)
		}
		delete(clauses, c[1])
	}
	for name, of := range clauses {
		t.Errorf("rows %q name %s, and agenttest has no such clause", of, name)
	}
}

// agentRows returns the tests that show each row of the tables in docs/agent.md, by the name of the row.
func agentRows(t *testing.T) map[string]string {
	t.Helper()
	rows := make(map[string]string)
	for line := range strings.Lines(text(t, "docs/agent.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !regexp.MustCompile(`^\| [BKH]\d`).MatchString(line) || len(cells) != 3 {
			continue
		}
		for _, row := range strings.Split(cells[0], ", ") {
			if rows[row] != "" {
				t.Errorf("docs/agent.md has row %s twice", row)
			}
			rows[row] = cells[2]
		}
	}
	return rows
}

// shows reports whether there is a test, or a clause of a suite. A name that ends in … is the beginning of some.
func shows(t *testing.T, name, suite string) bool {
	t.Helper()
	if suite != "" {
		return has(t, filepath.Join(strings.TrimSuffix(suite, "test"), suite, "*.go"), `"`+name+`"`)
	}
	dir, name, ok := strings.Cut(name, ".")
	if !ok {
		dir, name = "agent", dir
	}
	some := "func " + name + "("
	if beginning, ok := strings.CutSuffix(name, "…"); ok {
		some = "func " + beginning
	}
	engine := path.Join("internal/test/engine", dir)
	return slices.ContainsFunc([]string{dir, engine, engine + "s"}, func(dir string) bool {
		return has(t, path.Join(dir, "*_test.go"), some)
	})
}

// has reports whether a file of the checkout has a text.
func has(t *testing.T, pattern, part string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), part)
	})
}
