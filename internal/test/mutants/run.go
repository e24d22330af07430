package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A goTool runs the go command in a directory.
type goTool struct {
	ctx context.Context
	dir string
}

func (g goTool) run(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(g.ctx, "go", args...)
	cmd.Dir = g.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// list returns the packages, and the packages that they need, with the files of their exported types.
func (g goTool) list(patterns ...string) ([]goPackage, error) {
	out, err := g.run(append([]string{"list", "-export", "-deps", "-json"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, p)
	}
}

// A program is the compiled test of a package.
type program struct {
	suite
	path, dir string
	tests     []test // the quickest first
}

// A test is a test of a program, as it is without a mutant.
type test struct {
	name    string
	took    time.Duration // with the start of the program
	reached map[int]bool  // the mutants that it comes by
}

// A batch is tested by one process.
type batch struct {
	program *program
	names   []string
	took    time.Duration
}

// A suite is a package whose tests test the package that is changed.
type suite struct {
	pkg       string
	run, skip string // as for go test
}

// compile builds the tests of a package with an overlay.
func (g goTool) compile(s suite, overlay, to string) (*program, error) {
	if _, err := g.run("test", "-c", "-vet=off", "-overlay", overlay, "-o", to, s.pkg); err != nil {
		return nil, err
	}
	dir, err := g.run("list", "-f", "{{.Dir}}", s.pkg)
	if err != nil {
		return nil, err
	}
	return &program{suite: s, path: to, dir: strings.TrimSpace(string(dir))}, nil
}

// A verdict says what the tests found about a mutant.
type verdict string

const (
	killed     verdict = "killed"
	survived   verdict = "survived"
	timedOut   verdict = "timed out"
	notReached verdict = "not reached" // survived, because no test comes by
)

// limits bound what a test program may use.
type limits struct {
	memory int // in GiB; 0 is no bound
	least  time.Duration
	factor int // how often the time that the tests take without a mutant
	env    []string
}

// run runs tests with a mutant switched on. It returns the text of a failure too.
func (b batch) run(ctx context.Context, mutant int, l limits, env ...string) (verdict, string, error) {
	p, limit := b.program, l.least+time.Duration(l.factor)*b.took
	args := []string{"-test.failfast", "-test.short", "-test.timeout", limit.String(), "-test.run", b.pattern()}
	if p.skip != "" {
		args = append(args, "-test.skip", p.skip)
	}
	// A program that does not act on its own timeout is killed.
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	// A program that is killed leaves its files.
	files, err := tempDir(filepath.Dir(p.path), "files-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(files) //nolint:errcheck // it is in the directory for temporary files
	cmd := l.bounded(ctx, p.path, args)
	cmd.Dir = p.dir
	cmd.Env = slices.Concat(l.env, []string{mutantEnv + "=" + strconv.Itoa(mutant), "TMPDIR=" + files}, env)
	cmd.WaitDelay = time.Second // a child of the test may hold its output
	ownGroup(cmd)
	out, err := cmd.CombinedOutput()
	killGroup(cmd) // a child with the mutant may never end
	switch exit, ended := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return "", "", ctx.Err()
	case ctx.Err() != nil || bytes.Contains(out, []byte("panic: test timed out after")):
		return timedOut, string(out), nil
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return survived, "", nil
	case ended && exit.ExitCode() != 0:
		return killed, string(out), nil
	}
	return "", "", fmt.Errorf("%s: %w", p.pkg, err)
}

// tempDir makes a directory that every user may read: a test of root runs its servers as another user.
func tempDir(parent, pattern string) (string, error) {
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // see above
}

// bounded returns a command whose memory is bounded, because a mutant may allocate without end.
func (l limits) bounded(ctx context.Context, path string, args []string) *exec.Cmd {
	if l.memory == 0 || runtime.GOOS == "windows" {
		return exec.CommandContext(ctx, path, args...)
	}
	script := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, l.memory<<20)
	return exec.CommandContext(ctx, "sh", append([]string{"-c", script, path}, args...)...)
}

// pattern is the batch for -test.run. The suite may choose parts of its tests.
func (b batch) pattern() string {
	pattern := "^(" + strings.Join(b.names, "|") + ")$"
	if _, parts, ok := strings.Cut(b.program.suite.run, "/"); ok {
		pattern += "/" + parts
	}
	return pattern
}

// withoutMutant runs each test, which must pass. It notes how long that takes, and which mutants the test comes by.
func (p *program) withoutMutant(ctx context.Context, l limits, parallel int) error {
	names, err := p.list(ctx, l)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	err = each(ctx, parallel, names, func(ctx context.Context, name string) error {
		t, err := p.alone(ctx, name, l)
		mu.Lock()
		defer mu.Unlock()
		p.tests = append(p.tests, t)
		return err
	})
	slices.SortFunc(p.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return err
}

// isTest matches what is a test among what a program prints.
var isTest = regexp.MustCompile(`^(Test|Example|Fuzz)\w*$`)

// list returns the tests that the suite chooses.
func (p *program) list(ctx context.Context, l limits) (names []string, err error) {
	run, _, _ := strings.Cut(p.suite.run, "/")
	chosen, err := regexp.Compile(run)
	if err != nil {
		return nil, err
	}
	skip, err := regexp.Compile(p.skip)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.path, "-test.list", ".")
	cmd.Dir, cmd.Env = p.dir, l.env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: the list of tests: %w", p.pkg, err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		skipped := p.skip != "" && !strings.Contains(p.skip, "/") && skip.MatchString(name)
		if isTest.MatchString(name) && chosen.MatchString(name) && !skipped {
			names = append(names, name)
		}
	}
	return names, nil
}

// alone runs one test without a mutant.
func (p *program) alone(ctx context.Context, name string, l limits) (test, error) {
	t := test{name: name, reached: make(map[int]bool)}
	log, err := os.CreateTemp(filepath.Dir(p.path), "reached-")
	if err != nil {
		return t, err
	}
	defer os.Remove(log.Name()) //nolint:errcheck // it is in the directory for temporary files
	defer log.Close()
	const patience = 20 * time.Minute
	start := time.Now()
	v, out, err := batch{program: p, names: []string{name}}.
		run(ctx, 0, limits{memory: l.memory, least: patience, env: l.env}, reachedEnv+"="+log.Name())
	t.took = time.Since(start)
	if err == nil && v != survived {
		err = fmt.Errorf("%s fails without a mutant:\n%s", p.pkg, out)
	}
	if err != nil {
		return t, err
	}
	text, err := io.ReadAll(log)
	for line := range strings.FieldsSeq(string(text)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return t, err
		}
		t.reached[id] = true
	}
	return t, err
}

// about returns the tests that come by a mutant, the quick ones by themselves: most mutants do not survive them.
func (p *program) about(mutant int) (quick, others batch) {
	const most = time.Second
	quick.program, others.program = p, p
	for _, t := range p.tests {
		if !t.reached[mutant] {
			continue
		}
		b := &quick
		if len(quick.names) > 0 && quick.took+t.took > most {
			b = &others
		}
		b.names, b.took = append(b.names, t.name), b.took+t.took
	}
	return quick, others
}

// each calls f for some elements at a time. After an error it leaves out the others.
func each[T any](ctx context.Context, parallel int, all []T, f func(context.Context, T) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan T)
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for range parallel {
		wg.Go(func() {
			for one := range work {
				if err := ctx.Err(); err != nil {
					once.Do(func() { failed = err })
					continue
				}
				if err := f(ctx, one); err != nil {
					once.Do(func() { failed = err })
					stop()
				}
			}
		})
	}
	for _, one := range all {
		work <- one
	}
	close(work)
	wg.Wait()
	return failed
}
