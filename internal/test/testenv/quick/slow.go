package main

import (
	"regexp"
	"slices"
	"strings"
)

// slow is what is left out, and what runs it: packages of the module, which are not compiled either, and tests.
var slow = []struct{ packages, tests, why string }{
	{packages: `^internal/(postgres|redis)/`, why: "the stores on PostgreSQL and Redis: make test"},
	{packages: `^internal/test/engine/`, why: "searches of the engine: go test ./internal/test/engine/..."},
	{
		packages: `^internal/test/(testenv|testenv/run|mutants|citusrules|turnlogs)$`,
		why:      "what starts servers, and other tools of the tests: make test",
	},
	{packages: `^internal/test/bench$`, why: "the benchmarks: make bench-once"},
	{
		packages: `^examples/(refundbot|refundbot/bot|internal/tutorial)$`,
		why:      "the processes of the refund bot and of the tutorial: go test ./examples/...",
	},
	{packages: `^examples/openai$`, why: "openai-go, which takes a minute to compile: go test ./examples/openai"},
	{tests: `^TestUsers$`, why: "the programs in the documents, which are compiled: go test ./orchestrator"},
}

const module = "github.com/holdfast-go/holdfast/"

// leaveOut returns the arguments of go test for what is quick in the packages, and says what is left out. settings
// matches the tests that hold a store to its contract once more.
func leaveOut(packages []string, settings string) (args, left []string) {
	var skip []string
	if settings != "" {
		skip = []string{settings}
		left = []string{"other settings of the stores, and their largest documents: make settings"}
	}
	for _, s := range slow {
		if s.tests != "" {
			skip = append(skip, s.tests)
		} else {
			all, match := len(packages), regexp.MustCompile(s.packages)
			packages = slices.DeleteFunc(packages, func(p string) bool {
				return match.MatchString(strings.TrimPrefix(p, module))
			})
			if len(packages) == all {
				continue
			}
		}
		left = append(left, s.why)
	}
	return append([]string{"-skip", strings.Join(skip, "|")}, packages...), left
}
