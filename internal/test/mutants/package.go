package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// mutatePackage tests the mutants of one package. The report is about the mutants that were tested.
func (o options) mutatePackage(ctx context.Context, p plan, j *journal) (*report, error) {
	g := goTool{ctx: ctx, dir: o.dir}
	s, err := load(g, p.pkg)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("", "mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the directory for temporary files
	programs, err := o.programs(g, p, s, dir)
	if err != nil {
		return nil, err
	}
	chosen, err := o.choose(s.sites)
	if err != nil {
		return nil, err
	}
	if o.missed {
		chosen = slices.DeleteFunc(chosen, func(s *site) bool { return reached(programs, s) })
	}
	r := &report{pkg: p.pkg, notCompiled: s.notCompiled, sites: len(s.sites)}
	t := tester{programs: programs, limits: o.limits, journal: j}
	if o.verbose {
		t.say = func(e entry) { fmt.Fprintln(os.Stderr, e) }
	}
	return r, t.all(ctx, chosen, o.parallel, r)
}

// programs compiles the tests of a package with its mutants and runs them without one.
func (o options) programs(g goTool, p plan, s *subject, dir string) ([]*program, error) {
	overlay, err := s.overlay(dir)
	if err != nil {
		return nil, err
	}
	var programs []*program
	for i, suite := range p.suites {
		program, err := g.compile(suite, overlay, filepath.Join(dir, "test"+strconv.Itoa(i)))
		if err == nil {
			err = program.withoutMutant(g.ctx, o.limits, o.parallel)
		}
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}

// choose returns the sites that the flags choose.
func (o options) choose(sites []*site) ([]*site, error) {
	name, lines, _ := strings.Cut(o.lines, ":")
	first, last := 0, 1<<30
	if lines != "" {
		from, to, ranged := strings.Cut(lines, "-")
		if !ranged {
			to = from
		}
		var err error
		if first, err = strconv.Atoi(from); err != nil {
			return nil, fmt.Errorf("-lines: %w", err)
		}
		if last, err = strconv.Atoi(to); err != nil {
			return nil, fmt.Errorf("-lines: %w", err)
		}
	}
	var chosen []*site
	for i, s := range sites {
		if (i+o.seed)%o.every != 0 || s.line < first || s.line > last {
			continue
		}
		if name == "" || strings.HasSuffix(filepath.ToSlash(s.file.name), "/"+filepath.ToSlash(name)) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func reached(programs []*program, s *site) bool {
	return slices.ContainsFunc(programs, func(p *program) bool {
		return slices.ContainsFunc(p.tests, func(t test) bool { return t.reached[s.id] })
	})
}

// A tester runs programs with one mutant after the other.
type tester struct {
	programs []*program
	limits   limits
	journal  *journal
	say      func(entry)
}

// all tests the mutants, some at a time, and adds what it finds to r.
func (t tester) all(ctx context.Context, sites []*site, parallel int, r *report) error {
	var mu sync.Mutex
	return each(ctx, parallel, sites, func(ctx context.Context, s *site) error {
		e, err := t.one(ctx, s)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.entries = append(r.entries, e)
		return nil
	})
}

// one tests a mutant, if the journal does not have it.
func (t tester) one(ctx context.Context, s *site) (entry, error) {
	e := entryOf(s)
	if known, ok := t.journal.find(e); ok {
		return known, nil
	}
	e.Verdict = notReached
	for _, b := range t.batches(s.id) {
		v, out, err := b.run(ctx, s.id, t.limits)
		if err != nil {
			return e, err
		}
		e.Verdict = v
		if v != survived {
			e.By = b.program.pkg + " " + firstFailure(out)
			break
		}
	}
	if t.say != nil {
		t.say(e)
	}
	return e, t.journal.add(e)
}

// batches returns the tests that come by a mutant, the quick ones first.
func (t tester) batches(mutant int) (all []batch) {
	var slow []batch
	for _, p := range t.programs {
		quick, others := p.about(mutant)
		all, slow = append(all, quick), append(slow, others)
	}
	return slices.DeleteFunc(append(all, slow...), func(b batch) bool { return len(b.names) == 0 })
}

// firstFailure returns the name of the test that noticed.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	return ""
}
