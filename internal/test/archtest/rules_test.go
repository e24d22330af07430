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
	cron      = "github.com/netresearch/"
	otel      = "go.opentelemetry.io/otel"
)

// drivers must not be linked into a program that does not ask for them.
var drivers = []string{pgx, goRedis, redislock, goose, cron, "modernc.org/"}

// A rule says which packages a package may import, directly or through other packages of the module. Package names are
// relative to the module.
type rule struct {
	packages string   // see matches
	ours     []string // packages of the module; see matches
	// foreign are prefixes of import paths outside the module and the standard library.
	foreign []string
	// except are prefixes of import paths that foreign would allow and the rule forbids.
	except []string
}

// words has what all contracts share.
const words = "store"

var contracts = []string{
	words, "lock", "checkpoint", "snapshot", "turnlog", "ledger", "inbox", "stream", "message", "retry",
}

// rules are tried in order. A package without a rule is an error, unless it is internal.
var rules = slices.Concat(contractRules(), []rule{
	// Whatever has a row with a fence is owned by the same code.
	{packages: "internal/owner", ours: []string{words, "lock", "internal/"}},
	{packages: "internal/pulse", ours: []string{words, "lock", "internal/"}},
	{
		packages: "orchestrator",
		ours:     append([]string{"internal/"}, contracts...),
		foreign:  []string{otel},
		except:   []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"}, // the API only
	},
	{
		// The kit for users' tests is not for programs: no other rule names it.
		packages: "orchestrator/orchestratortest",
		ours:     append([]string{"orchestrator", "internal/"}, contracts...),
		foreign:  []string{otel},
		except:   []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	},
	{
		// It stands in the client of any SDK, and imports none.
		packages: "oncehttp",
		ours:     append([]string{"orchestrator", "internal/"}, contracts...),
		foreign:  []string{otel},
		except:   []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	},
	{packages: "bootdrain", ours: []string{"internal/logtext", "internal/runnote"}},
	// A process that serves workflows links no engine of turns.
	{packages: "serve", ours: []string{"bootdrain", words, "lock", "internal/"}},
	front("approval"),
	front("ops", "approval", "transcript", "workflow"), // bots and workflows, and no engine of workflows
	{
		packages: "cmd/holdfast",
		ours: slices.Concat([]string{
			"agent", "approval", "oncehttp", "ops", "orchestrator", "turnhttp", "transcript", "workflow", "migrations",
			"migrations/internal/", "postgres", "sqlite", "redis", "internal/",
		}, contracts, trees),
		foreign: []string{pgx, goRedis, redislock, goose, "modernc.org/", otel, "github.com/google/jsonschema-go"},
		except:  []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	},
	front("turnhttp", "approval"), // a program may drain in its own way
	front("turnhttp/agui", "turnhttp", "approval"),
	front("turnhttp/uichat", "turnhttp", "approval"),
	{packages: "turnhttp/chatpage"}, // it knows the routes, and no package
	{
		packages: "agent",
		ours: append(
			[]string{"orchestrator", "oncehttp", "transcript", "turnhttp", "approval", "internal/"}, contracts...),
		foreign: []string{otel, "github.com/google/jsonschema-go"},
		except:  []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	},
	{packages: "models", ours: append([]string{"orchestrator", "internal/"}, contracts...), foreign: []string{otel}},
	model("models/scripted"),
	model("models/openai", "github.com/openai/openai-go/v3"),
	model("models/openai/responses", "github.com/openai/openai-go/v3/"),
	model("models/anthropic", "github.com/anthropics/anthropic-sdk-go/v2"),
	{
		packages: "mcp",
		ours: append(
			[]string{"agent", "orchestrator", "oncehttp", "transcript", "turnhttp", "approval", "internal/"},
			contracts...),
		foreign: []string{otel, "github.com/google/jsonschema-go", "github.com/modelcontextprotocol/go-sdk"},
		except:  []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	},
	database("internal/postgres/", pgx, goose),
	database("internal/sqlite/", "modernc.org/", goose),
	database("internal/redis/", goRedis, redislock),
	{packages: "migrations", ours: []string{"internal/", "migrations/internal/"}, foreign: []string{goose}},
	{
		packages: "examples/refundbot",
		ours: slices.Concat(
			[]string{"*", "*/*", "internal/", "migrations/internal/", "examples/", "models/openai/internal/"}, trees),
		foreign: []string{""},
	},
	{
		packages: "examples/",
		ours:     slices.Concat([]string{"*", "*/*", "internal/", "migrations/internal/", "examples/"}, trees),
		foreign:  []string{""},
		// They take longest to compile: only a test in examples/openai links one, and refundbot its models.
		except: []string{"github.com/openai/", "github.com/anthropics/"},
	},
})

// front returns the rule of what stands in front of the engine.
func front(pkg string, ours ...string) rule {
	return rule{
		packages: pkg,
		ours:     slices.Concat(ours, []string{"orchestrator", "internal/"}, contracts),
		foreign:  []string{otel},
		except:   []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	}
}

// model returns the rule of a model: the agent, and the client of its own vendor.
func model(pkg string, client ...string) rule {
	return rule{
		packages: pkg,
		ours: append([]string{
			"agent", "models", "orchestrator", "oncehttp", "transcript", "turnhttp", "approval", "internal/",
			"models/openai/internal/",
		}, contracts...),
		foreign: append([]string{otel, "github.com/google/jsonschema-go"}, client...),
		except:  []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"},
	}
}

// trees hold the parts of each database. A pattern that names no database does not match them.
var trees = []string{"internal/postgres/", "internal/sqlite/", "internal/redis/"}

// contractRules returns the rules of each contract and its suite, and of the parts of each database.
func contractRules() []rule {
	var all []rule
	for _, c := range slices.Concat(contracts[1:], []string{"workflow", "transcript"}) {
		ours := []string{c, words, "lock", "internal/"}
		if c == "transcript" {
			ours = append(ours, "message")
		}
		// Package snapshot joins with these in its database: see decisions 27, 92 and 98.
		if c == "snapshot" {
			ours = append(ours, "checkpoint", "ledger", "turnlog")
		}
		all = append(all,
			rule{packages: c, ours: ours},
			rule{packages: c + "/" + c + "test", ours: ours},
			rule{packages: "internal/postgres/pg" + c, ours: within(ours, "internal/postgres/"), foreign: []string{pgx}},
			rule{packages: "internal/sqlite/sqlite" + c, ours: within(ours, "internal/sqlite/")},
			rule{packages: "internal/redis/redis" + c, ours: within(ours, "internal/redis/"), foreign: []string{goRedis}},
		)
	}
	process := []string{words, "lock", "internal/"}
	api := []string{otel + "/sdk", otel + "/exporters", otel + "/bridge"} // the API only
	engine := []string{"workflow/flow", "workflow", "retry", words, "lock", "internal/"}
	all = append(all,
		rule{packages: "workflow/flow", ours: engine[1:], foreign: []string{cron, otel}, except: api},
		rule{packages: "workflow/deliver", ours: engine, foreign: []string{cron, otel}, except: api},
		rule{
			packages: "workflow/workflowprom", ours: engine,
			foreign: []string{cron, otel, "github.com/prometheus/client_golang/prometheus"}, except: api,
		},
		// A program that only starts and signals runs links no engine, also behind HTTP.
		rule{packages: "workflow/workflowhttp", ours: []string{"workflow", words, "lock", "internal/"}},
	)
	return append(all,
		rule{
			packages: "internal/postgres/pgprocess",
			ours:     within(process, "internal/postgres/"), foreign: []string{pgx},
		},
		rule{packages: "internal/sqlite/sqliteprocess", ours: within(process, "internal/sqlite/")},
		rule{
			packages: "internal/redis/redisprocess",
			ours:     within(process, "internal/redis/"), foreign: []string{goRedis},
		},
		rule{packages: words, ours: []string{"internal/ids"}},
		rule{
			packages: "internal/postgres/pglocker",
			ours:     []string{"lock", words, "internal/", "internal/postgres/"}, foreign: []string{pgx},
		},
		rule{
			packages: "internal/redis/redislocker",
			ours:     []string{"lock", words, "internal/", "internal/redis/"}, foreign: []string{goRedis, redislock},
		},
	)
}

func within(ours []string, tree string) []string { return slices.Concat(ours, []string{tree}) }

// database returns the rule of the package of a database, whose parts are in the tree.
func database(tree string, foreign ...string) rule {
	return rule{
		packages: strings.TrimSuffix(strings.TrimPrefix(tree, "internal/"), "/"),
		ours: append([]string{
			"internal/", tree, "migrations", "migrations/internal/", "workflow", "transcript",
		}, contracts...),
		foreign: foreign,
	}
}

// matches reports whether pattern fits the package. A pattern is a name, a path.Match pattern, or a tree if it ends in
// a slash.
func matches(pattern, pkg string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(pkg+"/", pattern) && !(pattern == "internal/" && hasPrefix(pkg, trees))
	}
	ok, _ := path.Match(pattern, pkg)
	return ok
}

// A graph holds the imports of each package of the module. It leaves out the imports of tests.
type graph map[string][]string

// check returns the faults of g, in order.
func check(g graph) []string {
	var wrong []string
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, pkg) })
		inside := slices.Contains(strings.Split(pkg, "/"), "internal")
		if inside && (i < 0 || strings.HasSuffix(rules[i].packages, "/")) {
			continue // judged by its importers
		}
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

// reach returns the imports of pkg and of each package of the module that pkg reaches. Each package occurs once.
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

// forbids returns why rule r forbids pkg to import the path, or "".
func (r rule) forbids(pkg, to string) string {
	ours, isOurs := strings.CutPrefix(to, module+"/")
	switch {
	case isOurs && matches("internal/test/testenv/", ours):
		return "it is for tests"
	case isOurs && ours == "orchestrator/orchestratortest":
		return "it is for tests"
	case pkg == "orchestrator/orchestratortest" && to == "testing":
		return "an Example of a user has no testing.T"
	case isOurs && !slices.ContainsFunc(r.ours, func(p string) bool { return matches(p, ours) }):
		return "the arrows do not point there"
	case to == "testing" && !strings.HasSuffix(pkg, "test"):
		return "it would be in every program"
	case !isOurs && !standard(to) && (!hasPrefix(to, r.foreign) || hasPrefix(to, r.except)):
		return "a dependency that is not this package's"
	}
	return ""
}

// links returns the drivers among deps that the package must not bring into a program.
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
