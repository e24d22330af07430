// Package oncall_test runs the dashboard and the rules of docs against what a program reports.
package oncall_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

const docs = "../../../../docs/"

// A query is an expression of the dashboard, or of a rule.
type query struct{ title, expr string }

// panels returns the queries of the dashboard, with the variables filled in.
func panels(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile(docs + "grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 || ids[p.ID] {
			t.Errorf("panel %+v asks nothing, or has the id of another", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$bot", ".*", "$__rate_interval", "1m").Replace(target.Expr)
			if strings.Contains(expr, "$") || expr == "" {
				t.Errorf("%s: %q", p.Title, expr)
			}
			all = append(all, query{p.Title, expr})
		}
	}
	if len(dashboard.Panels) < 14 {
		t.Errorf("%d panels", len(dashboard.Panels))
	}
	return all
}

// rules returns the queries of the rules. They are YAML of the plain kind that this test knows: each has an alert, an
// expression, a severity and a summary.
func rules(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile(docs + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	expr := regexp.MustCompile(`(?s)\n        expr: (?:>-\n)?(.*?)\n        for: `)
	for _, rule := range strings.Split(string(text), "\n      - alert: ")[1:] {
		for _, key := range []string{
			"\n        expr: ", "\n        for: ", "\n        labels: {severity: ",
			"\n        annotations:\n          summary: \"",
		} {
			if strings.Count("\n"+rule, key) != 1 {
				t.Errorf("not once %q: %s", key, rule)
			}
		}
		name, _, _ := strings.Cut(rule, "\n")
		if m := expr.FindStringSubmatch(rule); m != nil {
			all = append(all, query{name, strings.Join(strings.Fields(m[1]), " ")})
		}
	}
	if len(all) < 12 || strings.Contains(string(text), "\t") {
		t.Errorf("%d rules", len(all))
	}
	return all
}
