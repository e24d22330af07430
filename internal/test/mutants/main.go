// Command mutants changes one place of a package at a time and runs the package's tests. A change that no test notices
// is a survivor: a behavior that no test holds, or code that nothing needs.
//
//	go run ./internal/test/mutants [flags] [packages]
//
// Without packages it takes those of its plan: the engine, and the memory and SQLite stores. A package that is not in
// the plan is tested by its own tests. No file of the tree changes: go test gets the changed package by -overlay. That
// package holds all changes, and the environment of the test switches one of them on. So each test is compiled once.
//
// These are the changes. A condition or a returned boolean is negated. A comparison, && or ||, + or - becomes its
// neighbor. true becomes false. A whole number grows by one, unless it must be constant. A call, an assignment, a
// defer, a go, a send, a break, a continue or a return is left out. nil is returned instead of an error. SQL and Lua
// stay as they are.
//
// The tests run without servers, on memory and SQLite, unless -servers is set. The verdicts are added to the file of
// -journal. A second run with the same journal skips the mutants that are in it, as long as their file is the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	dir      string
	packages []string
	lines    string
	every    int
	seed     int
	parallel int
	journal  string
	servers  bool
	tests    string
	run      string
	skip     string
	verbose  bool
	missed   bool
	limits   limits
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = mutate(ctx, o, os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "C", ".", "the `directory` of the module")
	f.StringVar(&o.lines, "lines", "", "only mutants in `file[:first[-last]]`")
	f.IntVar(&o.every, "every", 1, "only each `n`th mutant")
	f.IntVar(&o.seed, "seed", 0, "with -every: which of the n")
	f.IntVar(&o.parallel, "p", max(1, runtime.NumCPU()/2), "how many tests at a time")
	f.StringVar(&o.journal, "journal", "", "a `file` that keeps the verdicts, to go on with")
	f.BoolVar(&o.servers, "servers", false, "use the servers that the environment names, as make db-up prints it")
	f.StringVar(&o.tests, "tests", "", "the `packages` whose tests are run, with commas, instead of the plan's")
	f.StringVar(&o.run, "run", "", "with -tests: only tests that match the `pattern`")
	f.StringVar(&o.skip, "skip", "", "with -tests: no tests that match the `pattern`")
	f.BoolVar(&o.missed, "unreached", false, "only list the mutants that no test comes by: it is quick")
	f.BoolVar(&o.verbose, "v", false, "print each verdict as it comes")
	f.IntVar(&o.limits.memory, "memory", 8, "how many `GiB` a test may reserve; 0 for any number")
	f.DurationVar(&o.limits.least, "least", 15*time.Second,
		"a test is stopped after this time and -factor times its own")
	f.IntVar(&o.limits.factor, "factor", 4, "see -least")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.packages = f.Args()
	if o.every < 1 || o.parallel < 1 {
		return o, errors.New("-every and -p are at least 1")
	}
	if strings.Contains(o.run, "/") && strings.Contains(o.run, "|") {
		return o, errors.New("-run has either alternatives or a part of a test")
	}
	o.limits.env = os.Environ()
	if !o.servers {
		o.limits.env = slices.DeleteFunc(o.limits.env, func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	}
	return o, nil
}

// mutate tests all packages and prints the report.
func mutate(ctx context.Context, o options, w io.Writer) error {
	j, err := openJournal(o.journal)
	if err != nil {
		return err
	}
	defer j.close()
	var reports []*report
	for _, p := range o.plans() {
		r, err := o.mutatePackage(ctx, p, j)
		if r != nil {
			reports = append(reports, r)
		}
		if err != nil {
			printReports(w, reports)
			return fmt.Errorf("%s: %w", p.pkg, err)
		}
	}
	printReports(w, reports)
	return nil
}

// plans returns what the flags choose.
func (o options) plans() []plan {
	var chosen []plan
	for _, p := range plans {
		if slices.Contains(o.packages, p.pkg) || len(o.packages) == 0 && (o.servers || !p.withServers) {
			chosen = append(chosen, p)
		}
	}
	for _, pkg := range o.packages {
		if !slices.ContainsFunc(chosen, func(p plan) bool { return p.pkg == pkg }) {
			chosen = append(chosen, plan{pkg: pkg, suites: []suite{{pkg: pkg}}})
		}
	}
	if o.tests == "" {
		return chosen
	}
	var instead []suite
	for pkg := range strings.SplitSeq(o.tests, ",") {
		instead = append(instead, suite{pkg: pkg, run: o.run, skip: o.skip})
	}
	for i := range chosen {
		chosen[i].suites = instead
	}
	return chosen
}
