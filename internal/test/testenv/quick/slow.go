package main

import (
	"regexp"
	"slices"
	"strings"
)

// slow is what is left out, and what runs it. A package is left out, and not compiled, if the expression matches its
// name in the module, or that of a package that its tests import.
var slow = []struct{ packages, tests, why string }{
	{packages: `^examples/openai$`, why: "openai-go, which takes a minute to compile: go test ./examples/openai"},
	{packages: `^internal/test/engine/`, why: "searches of the engine: go test ./internal/test/engine/..."},
	{packages: `^internal/test/bench$`, why: "benchmarks: make bench-once"},
	{
		packages: `^examples/(agent|refundbot|internal)/?`,
		why:      "the examples with a page, and the tutorial: go test ./examples/...",
	},
	{packages: `^turnhttp/chatpage$`, why: "the page of agents, in a browser: go test ./turnhttp/chatpage"},
	{
		packages: `^internal/test/((pg|redis|sqlite)test$|testenv)`,
		why: "the stores, whose drivers take a minute to compile: go test ./internal/test/stores/... has those on " +
			"SQLite, make test all",
	},
	{
		tests: `^Test(FatItems|InputLimit|InputWithEscapes|LargestOfBoth|ManySessions|` +
			`SessionsKeepNoMemory|StreamOfLongTokens|SubscriberHangsInBytes|SuspendedCost|UnreadStream)$`,
		why: "the largest documents and many sessions of the engine: go test ./orchestrator",
	},
	{
		tests: `^Test(Users|ReadmeProgram)$`,
		why:   "the programs in the documents, which are compiled: go test ./orchestrator ./mcp ./models/...",
	},
}

const module = "github.com/holdfast-go/holdfast/"

// format makes go list print a package and what its tests import, in a line.
const format = `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`

// leaveOut returns the arguments of go test for what is quick in a list of packages, and says what is left out.
// Packages without tests are not compiled.
func leaveOut(list string) (args, left []string) {
	packages := slices.Collect(strings.Lines(strings.ReplaceAll(list, module, "")))
	packages = slices.DeleteFunc(packages, func(p string) bool { return len(strings.Fields(p)) == 1 })
	var skip []string
	for _, s := range slow {
		if s.tests != "" {
			skip, left = append(skip, s.tests), append(left, s.why)
			continue
		}
		all, match := len(packages), regexp.MustCompile(s.packages)
		packages = slices.DeleteFunc(packages, func(p string) bool {
			return slices.ContainsFunc(strings.Fields(p), match.MatchString)
		})
		if len(packages) < all {
			left = append(left, s.why)
		}
	}
	args = []string{"-skip", strings.Join(skip, "|")}
	for _, p := range packages {
		args = append(args, module+strings.Fields(p)[0])
	}
	return args, left
}
