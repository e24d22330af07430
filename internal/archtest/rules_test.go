package archtest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const module = "github.com/holdfast-go/holdfast"

// Prefixes of import paths.
const (
	pgx       = "github.com/jackc/"
	goRedis   = "github.com/redis/"
	redislock = "github.com/bsm/"
	goose     = "github.com/pressly/"
	otel      = "go.opentelemetry.io/otel"
)

// drivers must not be linked into a program that does not ask for them.
var drivers = []string{pgx, goRedis, redislock, goose, "modernc.org/"}

// A rule says what packages may import, themselves or through other packages of
// the module. Packages are named relative to the module.
type rule struct {
	packages string   // see matches
	ours     []string // packages of the module; see matches
	foreign  []string // prefixes of import paths from outside it and the standard library
	except   []string // prefixes of those that are not meant after all
}

var contracts = []string{"lock", "checkpoint", "snapshot", "turnlog", "ledger", "message", "retry"}

// rules are tried in order. A package without a rule is an error, unless it is internal.
var rules = slices.Concat(contractRules(), []rule{
	{
		packages: "orchestrator",
		ours:     append([]string{"internal/"}, contracts...),
		foreign:  []string{otel},
		except:   []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"}, // the API only
	},
	{packages: "bootdrain", ours: []string{"internal/logtext"}},
	{packages: "migrations", ours: []string{"internal/", "migrations/internal/"}, foreign: []string{goose, pgx}},
	{packages: "examples/", ours: []string{"*", "*/*", "internal/", "migrations/internal/", "examples/"}, foreign: []string{""}},
})

// contractRules returns the rules of each contract, its suite and its backends.
func contractRules() []rule {
	all := []rule{{packages: "lock/redislocker", ours: []string{"lock", "internal/"}, foreign: []string{goRedis, redislock}}}
	for _, c := range contracts {
		ours := []string{c, "lock", "internal/"}
		if c == "snapshot" { // joins with the checkpoint store in its database: see decision 27
			ours = append(ours, "checkpoint", "checkpoint/sqlite*", "checkpoint/pg*")
		}
		all = append(all,
			rule{packages: c, ours: ours},
			rule{packages: c + "/" + c + "test", ours: ours},
			rule{packages: c + "/sqlite*", ours: ours},
			rule{packages: c + "/pg*", ours: ours, foreign: []string{pgx}},
			rule{packages: c + "/redis*", ours: ours, foreign: []string{goRedis}},
		)
	}
	return all
}

// matches reports whether pattern is for the package: a name, a path.Match pattern,
// or a tree if it ends in a slash.
func matches(pattern, pkg string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(pkg+"/", pattern)
	}
	ok, _ := path.Match(pattern, pkg)
	return ok
}

// A graph holds the imports, without those of tests, of each package of the module.
type graph map[string][]string

// check returns what is wrong with g, in order.
func check(g graph) []string {
	var wrong []string
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if slices.Contains(strings.Split(pkg, "/"), "internal") {
			continue // judged by who imports it
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, pkg) })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%s has no rule", pkg))
			continue
		}
		for _, edge := range reach(g, pkg) {
			if why := rules[i].forbids(pkg, edge.to); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s must not import %s (%s does): %s", pkg, edge.to, edge.from, why))
			}
		}
	}
	return wrong
}

type edge struct{ from, to string }

// reach returns the imports of pkg and of all packages of the module that it
// imports, each package once.
func reach(g graph, pkg string) []edge {
	var edges []edge
	seen := map[string]bool{pkg: true}
	for next := []string{pkg}; len(next) > 0; next = next[1:] {
		for _, to := range g[next[0]] {
			if seen[to] {
				continue
			}
			seen[to] = true
			edges = append(edges, edge{next[0], to})
			if ours, ok := strings.CutPrefix(to, module+"/"); ok {
				next = append(next, ours)
			}
		}
	}
	return edges
}

// forbids says why pkg, under rule r, may not import the path, or returns "".
func (r rule) forbids(pkg, to string) string {
	ours, isOurs := strings.CutPrefix(to, module+"/")
	switch {
	case isOurs && matches("internal/testenv/", ours):
		return "it is for tests"
	case isOurs && !slices.ContainsFunc(r.ours, func(p string) bool { return matches(p, ours) }):
		return "the arrows do not point there"
	case to == "testing" && !strings.HasSuffix(pkg, "test"):
		return "it would be in every program"
	case !isOurs && !standard(to) && (!hasPrefix(to, r.foreign) || hasPrefix(to, r.except)):
		return "a dependency that is not this package's"
	}
	return ""
}

// links returns the drivers among deps that the package may not bring into a program.
func links(pkg string, deps []string) []string {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, pkg) })
	if i < 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(deps), func(dep string) bool {
		return !hasPrefix(dep, drivers) || hasPrefix(dep, rules[i].foreign)
	})
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// standard reports whether the import path is the standard library's: its first
// element has no dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}
