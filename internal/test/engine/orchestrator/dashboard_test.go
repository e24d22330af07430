package orchestrator_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	instrument   = regexp.MustCompile(`meter\.(\w+)\(\s*"([a-z_.]+)"(?:, metric\.WithUnit\("([^"]+)"\))?`)
	metricName   = regexp.MustCompile(`\b(?:holdfast|gen_ai)_[a-z_]+\b`)
	attributeKey = regexp.MustCompile(`attribute\.Key\("([a-z_.]+)"\)`)
)

// exported returns the names of Prometheus for what the engine registers, by the rules of OpenTelemetry's exporters,
// and the names of its attributes.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	for _, name := range []string{"telemetry.go", "gauges.go"} {
		text, err := os.ReadFile(engine + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range instrument.FindAllStringSubmatch(string(text), -1) {
			kind, metric := m[1], strings.ReplaceAll(m[2], ".", "_")
			if m[3] == "s" {
				metric += "_seconds"
			}
			switch {
			case strings.HasSuffix(kind, "UpDownCounter"), strings.HasSuffix(kind, "Gauge"):
				known[metric] = true
			case strings.HasSuffix(kind, "Counter"):
				known[metric+"_total"] = true
			case strings.HasSuffix(kind, "Histogram"):
				known[metric+"_bucket"], known[metric+"_sum"], known[metric+"_count"] = true, true, true
			default:
				t.Errorf("instrument %s of %s", kind, m[2])
			}
		}
		for _, m := range attributeKey.FindAllStringSubmatch(string(text), -1) {
			known[strings.ReplaceAll(m[1], ".", "_")] = true
		}
	}
	if len(known) < 20 {
		t.Fatalf("found %d names only", len(known))
	}
	return known
}

// The dashboard and the rules use no metric or attribute that the engine does not register.
func TestDashboards(t *testing.T) {
	known := exported(t)
	for _, name := range []string{"grafana.json", "alerts.yaml"} {
		text, err := os.ReadFile(engine + "../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := metricName.FindAllString(string(text), -1)
		for _, metric := range found {
			if !known[metric] {
				t.Errorf("%s uses %s, which nothing registers", name, metric)
			}
		}
		if len(found) < 8 {
			t.Errorf("%s uses %d metrics", name, len(found))
		}
	}
}

// The dashboard is JSON, and each panel asks something.
func TestGrafanaJSON(t *testing.T) {
	text, err := os.ReadFile(engine + "../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %+v asks nothing", p)
		}
	}
	if len(dashboard.Panels) < 8 {
		t.Errorf("%d panels", len(dashboard.Panels))
	}
}

// The rules are YAML of the plain kind that this test knows: each has an alert, an expression and a summary.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile(engine + "../docs/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.Split(string(text), "\n      - alert: ")[1:]
	for _, rule := range rules {
		for _, key := range []string{
			"\n        expr: ", "\n        for: ", "\n        annotations:\n          summary: \"",
		} {
			if strings.Count("\n"+rule, key) != 1 {
				t.Errorf("not once %q: %s", key, rule)
			}
		}
	}
	if len(rules) < 5 || strings.Contains(string(text), "\t") {
		t.Errorf("%d rules", len(rules))
	}
}
