package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// Each cell of docs/comparison.md has a source, or says that none was found. What Holdfast lacks needs none. Each link
// has an address, and each address is linked.
func TestComparisonHasSources(t *testing.T) {
	page := text(t, "docs/comparison.md")
	defined := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\[([\w-]+)\]: https://\S+$`).FindAllStringSubmatch(page, -1) {
		defined[m[1]] = false
	}
	cells, columns := 0, 0
	for line := range strings.Lines(page) {
		row, ok := strings.CutPrefix(line, "| ")
		if !ok {
			continue
		}
		all := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), " |"), " | ")[1:]
		if strings.HasPrefix(row, "| Holdfast") {
			columns = strings.Count(row, "|") - 1
			continue
		}
		if len(all) != columns {
			t.Errorf("%d cells below %d columns in %.40q…", len(all), columns, row)
		}
		for i, cell := range all {
			cells++
			if !strings.Contains(cell, "](") && !strings.Contains(cell, "][") && cell != "not found" &&
				(i > 0 || cell != "no") {
				t.Errorf("a cell has no source: %q in %.40q…", cell, row)
			}
		}
	}
	if cells < 100 {
		t.Errorf("found %d cells", cells)
	}
	for _, m := range regexp.MustCompile(`\]\[([\w-]+)\]`).FindAllStringSubmatch(page, -1) {
		if _, ok := defined[m[1]]; !ok {
			t.Errorf("the link %s has no address", m[1])
		}
		defined[m[1]] = true
	}
	for name, used := range defined {
		if !used {
			t.Errorf("the address %s is linked nowhere", name)
		}
	}
}
