package oncall_test

import (
	"bufio"
	"cmp"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A series is one line of a scrape.
type series struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	scrapedLine = regexp.MustCompile(`^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)`)
	label       = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	selector    = regexp.MustCompile(`\b((?:holdfast|gen_ai)_\w+)\s*(?:\{([^}]*)\})?`)
	grouping    = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
)

type scrape []series

// poll is the pause between looks at what another process does.
const poll = 50 * time.Millisecond

func (s service) scrape() (all scrape) {
	s.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(s.do(http.MethodGet, "/metrics")))
	for lines.Scan() {
		m := scrapedLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			s.t.Fatalf("%s: %v", lines.Text(), err)
		}
		one := series{m[1], map[string]string{"instance": s.addr}, value}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			one.labels[l[1]] = l[3]
		}
		all = append(all, one)
	}
	return all
}

// until scrapes until ok says yes.
func (s service) until(what string, ok func(scrape) bool) (all scrape) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if all = s.scrape(); ok(all) {
			return all
		}
		time.Sleep(poll)
	}
	s.t.Fatalf("after a minute: %s", what)
	return nil
}

// selected returns the series that a selector of PromQL selects.
func (all scrape) selected(name, matchers string) (found scrape) {
	for _, s := range all {
		if s.name == name && !slices.ContainsFunc(label.FindAllStringSubmatch(matchers, -1), func(m []string) bool {
			return !matches(s.labels[m[1]], m[2], m[3])
		}) {
			found = append(found, s)
		}
	}
	return found
}

func matches(value, op, want string) bool {
	equal := value == want
	if strings.HasSuffix(op, "~") {
		equal = regexp.MustCompile("^(?:" + want + ")$").MatchString(value)
	}
	return equal != strings.HasPrefix(op, "!")
}

// sum adds what a selector selects. It is NaN if there is no such series.
func (all scrape) sum(text string) float64 {
	m := selector.FindStringSubmatch(text)
	found := all.selected(m[1], m[2])
	if len(found) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, s := range found {
		sum += s.value
	}
	return sum
}

// missing returns what an expression names and the program does not report: a selector, or a label to group by.
func (all scrape) missing(expr string) (what []string) {
	var named scrape
	for _, m := range selector.FindAllStringSubmatch(grouping.ReplaceAllString(expr, ""), -1) {
		found := all.selected(m[1], m[2])
		if len(found) == 0 {
			what = append(what, m[0])
		}
		named = append(named, found...)
	}
	if named == nil && what == nil {
		return []string{"any metric"}
	}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(m[1], ",") {
			if l = strings.TrimSpace(l); !slices.ContainsFunc(named, func(s series) bool {
				_, ok := s.labels[l]
				return ok
			}) {
				what = append(what, "label "+l)
			}
		}
	}
	return what
}

// quantile is histogram_quantile of what a histogram has counted from one scrape to another.
func quantile(q float64, before, after scrape, name, matchers string) float64 {
	counts := make(map[float64]float64)
	for _, s := range after.selected(name, matchers) {
		counts[bound(s)] += s.value
	}
	for _, s := range before.selected(name, matchers) {
		counts[bound(s)] -= s.value
	}
	bounds := slices.Sorted(maps.Keys(counts))
	if len(bounds) == 0 {
		return math.NaN()
	}
	rank := q * counts[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, b := range bounds {
		if counts[b] >= rank {
			return lower + (b-lower)*(rank-below)/cmp.Or(counts[b]-below, 1)
		}
		lower, below = b, counts[b]
	}
	return math.NaN()
}

func bound(s series) float64 {
	b, err := strconv.ParseFloat(s.labels["le"], 64)
	if err != nil {
		panic(err)
	}
	return b
}

// The checks of this file notice what they are for.
func TestMissing(t *testing.T) {
	all := scrape{
		{"holdfast_turns_total", map[string]string{"holdfast_outcome": "left", "holdfast_orchestrator": "shop"}, 3},
	}
	for expr, want := range map[string][]string{
		`sum by (holdfast_orchestrator) (rate(holdfast_turns_total{holdfast_outcome="left"}[5m])) > 0`: nil,
		`rate(holdfast_turns_total{holdfast_outcome=~"left|failed"}[5m])`:                              nil,
		`rate(holdfast_turns_total{holdfast_outcome="failed"}[5m])`:                                    {`holdfast_turns_total{holdfast_outcome="failed"}`},
		`absent(holdfast_turns_total) or absent(holdfast_runs)`:                                        {"holdfast_runs"},
		`sum by (error_type) (holdfast_turns_total)`:                                                   {"label error_type"},
		`up == 0`: {"any metric"},
	} {
		if got := all.missing(expr); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}
