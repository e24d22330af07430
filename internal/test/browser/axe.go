package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/test/npm"
)

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
	script, err := os.ReadFile(filepath.Join(npm.Dir(t.tb), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.tb.Fatal("browser:", err)
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
